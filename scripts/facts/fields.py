"""The fields of an entry of each table of facts/, with their types: a misspelt or swapped field is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, StringConstraints, ValidationError

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=False)]
Confidence = Literal["low", "medium", "high"]


class Entry(BaseModel):
    """One line."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    date: Text


class Model(Entry):
    """models.jsonl."""

    id: Text
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


class Checkpoint(Entry):
    """checkpoints.jsonl."""

    id: Text
    param_count: PositiveInt
    weight_bytes: PositiveInt
    dtype_params: dict[str, PositiveInt]
    replicated_bytes: NonNegativeInt | None = None
    expert_bytes: NonNegativeInt | None = None
    source: Text


class Correction(Entry):
    """corrections.jsonl."""

    id: Text
    changes: Annotated[dict[str, Any], Field(min_length=1)]
    source: Text | None


class Relative(Entry):
    """relatives.jsonl."""

    id: Text
    base: Text
    source: Text
    scheme: Literal["mxfp4", "fp8", "gptq", "awq", "w8a8", "nvfp4", "w4a16", "bnb"] | None = None


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
    architecture: Text | None = None
    compute_capability: Annotated[str, StringConstraints(pattern=r"^\d{1,2}\.\d$")] | None = None
    marketing_gb: PositiveInt
    nvidia_smi_mib: PositiveInt | None = None
    cuda_mib: PositiveInt
    seen: list[Seen]
    bf16: bool
    unified_memory: bool
    names: dict[Text, list[Text]]
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
    release: Text
    source: Text


TABLES: Mapping[str, type[Entry]] = {
    "checkpoints": Checkpoint,
    "corrections": Correction,
    "gpus": Gpu,
    "images": Image,
    "instances": Instance,
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
