"""Models whose bytes the catalog has not counted, read from the local Hugging Face cache or the hub when named."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from podfit.cli.support import checkpoints, edge
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.model import COMMIT, by_id
from podfit.vllm.model.given import LazyModels
from podfit.vllm.model.recipes import is_id


def add_arguments(parser: argparse.ArgumentParser, *, cache: bool) -> None:
    """Register `--hf-cache` and `--hub`. `cache`: read the cache by default."""
    parser.add_argument(
        "--hf-cache",
        action=argparse.BooleanOptionalAction,
        default=cache or None,
        help="read the config.json and the safetensors headers of models in the local Hugging Face cache (HF_HOME). "
        "They deny only if vLLM's --revision names that commit; "
        + ("default: yes" if cache else "default: no, or hfCache in podfit.yaml"),
    )
    parser.add_argument(
        "--hub",
        action="store_true",
        help="ask the hub for models that are in neither, with huggingface_hub: config.json and headers, never weights",
    )


def added(facts: Facts, args: argparse.Namespace) -> Facts:
    """The facts with the models of the cache, and of the hub, if the options say so."""
    if not getattr(args, "hf_cache", None) and not getattr(args, "hub", False):
        return facts
    return replace(facts, models=CachedModels(facts.models, reads_cache=bool(args.hf_cache), asks_hub=args.hub))


@dataclass(frozen=True)
class CachedModels(LazyModels):
    """The given models, and those of the cache and the hub by id. A snapshot is read once, when it is first looked up.

    `ORG/NAME@COMMIT` is the snapshot that `--revision COMMIT` names: a denial may be based on it. The snapshot of
    `main` informs, since another one may be served.

    A model whose bytes the catalog has counted is not looked up: the cache would say the same.
    """

    reads_cache: bool
    asks_hub: bool
    snapshots: dict[str, GivenModel | None] = field(default_factory=dict)

    def __getitem__(self, name: str) -> GivenModel:
        """The model of this name. Raises KeyError."""
        if name in self.given:
            return self.given[name]
        if name not in self.snapshots:
            self.snapshots[name] = self._read(name)
        if (model := self.snapshots[name]) is None:
            raise KeyError(name)
        return model

    def __iter__(self) -> Iterator[str]:
        """The names of the given models alone: the others are looked up by id, and never guessed by a part of it."""
        return iter(self.given)

    def __len__(self) -> int:
        """At least one, since any id may be in the cache."""
        return len(self.given) + 1

    def _read(self, name: str) -> GivenModel | None:
        """The model of `ORG/NAME` or `ORG/NAME@COMMIT`. None, with a note on standard error, if it can't be read."""
        model_id, _, commit = name.partition("@")
        if not is_id(model_id) or ((entry := by_id(model_id)) is not None and entry.value.dtype_parameters):
            return None
        if commit and not COMMIT.fullmatch(commit):
            return None
        revision = commit or "main"
        folder = checkpoints.cached_folder(model_id, revision) if self.reads_cache else None
        try:
            if folder is not None:
                model = checkpoints.read_folder(folder, f"Hugging Face cache: {folder.parent.parent}")
                return replace(model, source=f"{model.source}, revision {folder.name}", may_deny=bool(commit))
            return replace(checkpoints.from_hub(model_id, revision), may_deny=bool(commit)) if self.asks_hub else None
        except edge.UnusableError as error:
            for line in error.lines:
                edge.tell(f"note: {line}")
            return None
