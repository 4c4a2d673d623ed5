"""The fields of an entry of each table of facts/, with their types: a misspelt or swapped field is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    StringConstraints,
    ValidationError,
    model_validator,
)

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=False)]
Id = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
"""A model on the hub: owner/name."""
Name = Annotated[str, StringConstraints(pattern=r"^\S(.*\S)?$")]
"""A name without spaces around it."""
Place = Literal["smi", "gfd", "other", "skypilot", "coreweave", "karpenter", "amd", "amd-id", "gke", "nebius"]
"""What uses a GPU's name: nvidia-smi, GPU feature discovery, a cloud's labels."""
Architecture = Literal[
    "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada-lovelace", "hopper", "blackwell",
]  # fmt: skip
Confidence = Literal["low", "medium", "high"]


class Entry(BaseModel):
    """One line."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    date: Text


class Model(Entry):
    """models.jsonl."""

    id: Id
    config: dict[str, Any]
    source: Annotated[list[Text], Field(min_length=1)]
    confidence: Literal["file", "table", "documented", "memory"]
    trusted: bool
    parameters: PositiveInt | None = None
    weights_bytes: PositiveInt | None = None
    stored_elements: PositiveInt | None = None
    base: Text | None = None
    aliases: list[Text] = []
    gated: bool | None = None
    notes: list[Text] = []
    doubts: list[Text] = []
    memory_keys: list[Text] = []

    @model_validator(mode="after")
    def _doubted(self) -> Self:
        """Raises ValueError for a model that is trusted in spite of doubts, or not trusted without one."""
        if self.trusted == bool(self.doubts):
            raise ValueError("expected doubts if and only if trusted is false")
        return self


class Checkpoint(Entry):
    """checkpoints.jsonl."""

    id: Id
    param_count: PositiveInt
    weight_bytes: PositiveInt
    dtype_params: dict[str, PositiveInt]
    replicated_bytes: NonNegativeInt | None = None
    expert_bytes: NonNegativeInt | None = None
    source: Text


class Correction(Entry):
    """corrections.jsonl."""

    id: Id
    changes: Annotated[dict[str, Any], Field(min_length=1)]
    source: Text | None


class Gated(Entry):
    """gated.jsonl."""

    id: Id
    source: Text


class Relative(Entry):
    """relatives.jsonl."""

    id: Id
    base: Id
    source: Text
    scheme: Literal["mxfp4", "fp8", "gptq", "awq", "w8a8", "nvfp4", "w4a16", "bnb"] | None = None


class Recipe(Entry):
    """recipes.jsonl."""

    id: Id
    copies: list[Id] = []
    minimum: Annotated[str, StringConstraints(pattern=r"^0\.\d+(\.\d+)?$")] | None = None
    tool_call_parsers: list[Name] = []
    reasoning_parsers: list[Name] = []
    source: Text


class ModelType(Entry):
    """model_types.jsonl."""

    model_type: Text
    defaults: dict[str, Any]
    source: Text


class Seen(BaseModel):
    """A value that a user saw of a GPU."""

    model_config = ConfigDict(strict=True, extra="forbid")

    mib: PositiveInt
    by: Literal["cuda", "nvidia-smi"]
    condition: str = ""
    source: list[Text] = []


class Gpu(Entry):
    """gpus.jsonl."""

    name: Text
    vendor: Literal["nvidia", "amd", "intel", "google", "aws", "huawei"]
    architecture: Architecture | Annotated[str, StringConstraints(pattern=r"^gfx[0-9a-f]{3,4}$")] | None = None
    compute_capability: Annotated[str, StringConstraints(pattern=r"^\d{1,2}\.\d$")] | None = None
    marketing_gb: PositiveInt
    nvidia_smi_mib: PositiveInt | None = None
    cuda_mib: PositiveInt
    seen: list[Seen]
    bf16: bool
    nvlink: Literal[False] | None = None
    unified_memory: bool
    names: dict[Place, list[Name]]
    partitions: dict[Text, PositiveInt] = {}
    notes: str = ""
    confidence: Confidence
    source: Annotated[list[Text], Field(min_length=1)]


class Mig(Entry):
    """mig.jsonl."""

    gpu: Text
    profile: Annotated[str, StringConstraints(pattern=r"^[1-7]g\.\d+gb([.+-](me|gfx))?(\.all)?$")]
    max: Annotated[int, Field(ge=1, le=7)]
    mib: PositiveInt
    by: Literal["cuda", "label"]
    source: Text


class Instance(Entry):
    """instances.jsonl."""

    type: Text
    provider: Literal["aws", "azure", "coreweave", "digitalocean", "gcp", "lambda", "nebius", "oci", "ovh", "scaleway"]
    gpu: Text
    count: NonNegativeInt | None = None
    fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    host_ram_gib: Annotated[float, Field(ge=4, le=8192)] | None = None
    allocatable_memory: Annotated[str, StringConstraints(pattern=r"^\d+Mi$")] | None = None
    gpu_memory_label_mib: PositiveInt | None = None
    confidence: Confidence
    source: Text


class Image(Entry):
    """images.jsonl."""

    image: Annotated[str, StringConstraints(pattern=r"^[^:\s]+:[^:\s]+$")]
    release: Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)+(\.post\d+)?$")]
    source: Text


class KnownGood(Entry):
    """known_good.jsonl."""

    model: Id
    gpu: Text
    count: PositiveInt
    release: Text
    options: dict[str, bool | int | float | str | dict[str, Any]]
    runs: bool
    source: Text


TABLES: Mapping[str, type[Entry]] = {
    "checkpoints": Checkpoint,
    "corrections": Correction,
    "gated": Gated,
    "gpus": Gpu,
    "images": Image,
    "recipes": Recipe,
    "instances": Instance,
    "known_good": KnownGood,
    "mig": Mig,
    "model_types": ModelType,
    "models": Model,
    "relatives": Relative,
}
"""Table → its entries."""


def problems(table: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an entry's fields, `field: reason`."""
    try:
        TABLES[table].model_validate(entry)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False):
            place = ".".join(str(part) for part in one["loc"])
            yield f"{place}: {one['msg'][:1].lower()}{one['msg'][1:]} ({one['input']!r:.60})"
