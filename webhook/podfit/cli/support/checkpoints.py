"""A model's own files: a folder, the local Hugging Face cache, or the hub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from podfit.cli.support import edge
from podfit.cli.support.edge import UnusableError
from podfit.vllm.facts import Counted, GivenModel
from podfit.vllm.model import given

LARGEST_HEADER = 100_000_000
"""Bytes; the safetensors library rejects longer headers."""


def locate(model: str, revision: str = "main") -> tuple[str, GivenModel]:
    """The name and the facts of a model: a folder, an id in the local Hugging Face cache, or one of the hub. Raises
    UnusableError."""
    path = Path(model)
    if path.is_dir():
        return _name_of(path), read_folder(path, str(path))
    folder = cached_folder(model, revision)
    if folder is not None:
        return model, read_folder(folder, f"Hugging Face cache: {model}")
    return model, from_hub(model, revision)


def _name_of(path: Path) -> str:
    """A folder's model: of a Hugging Face cache its id, else the folder's own name."""
    text = path.resolve().as_posix()
    cached_name = given.cached(text)
    return cached_name if cached_name != text else path.resolve().name


def read_folder(folder: Path, source: str) -> GivenModel:
    """The model in a folder: its config.json, and what the headers of its safetensors files, or else an index, say.
    Raises UnusableError, with the file and the reason."""
    if not (folder / given.CONFIG).is_file():
        other = " (GGUF files carry no config.json; take that of the model they were made of)"
        hint = other if any(folder.glob("*.gguf")) else ""
        raise UnusableError(f"{folder}: there is no {given.CONFIG}{hint}", 3)
    entries = {
        name: edge.read_text(folder / name)
        for name in (given.CONFIG, given.INDEX, *given.QUANTIZATION_FILES)
        if (folder / name).is_file()
    }
    models, errors = given.read(entries, source, ("it",))
    if errors:
        raise UnusableError(errors, 3)
    model = models["it"]
    files = _checkpoint(folder)
    if not files:
        return model
    counted = given.of_headers(_header(file) for file in files)
    return GivenModel(model.config, f"{source}: headers of {len(files)} safetensors files", counted)


def _checkpoint(folder: Path) -> list[Path]:
    """The safetensors files that vLLM loads: those of the index, else all, without Mistral's second copy."""
    files = sorted(folder.glob("*.safetensors"))
    others = [file for file in files if not file.name.startswith("consolidated")]
    return others or files


def _header(path: Path) -> dict[str, Any]:
    """The header of one safetensors file: eight bytes of length, then JSON."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 0 < size <= LARGEST_HEADER:
                raise UnusableError(f"{path}: not a safetensors file: its header would have {size:,} bytes", 3)
            header = json.loads(file.read(size))
    except (OSError, ValueError) as error:
        reason = error.strerror or "unreadable" if isinstance(error, OSError) else str(error)
        raise UnusableError(f"{path}: not a safetensors file: {reason}", 3) from error
    if not isinstance(header, dict):
        raise UnusableError(f"{path}: not a safetensors file: its header is not a JSON object", 3)
    return header


def cached_folder(name: str, revision: str) -> Path | None:
    """The newest snapshot of an id in the local Hugging Face cache (huggingface_hub constants.py)."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    repository = cache / f"models--{name.replace('/', '--')}"
    try:
        commit = (repository / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        commit = revision
    folder = repository / "snapshots" / commit
    return folder if (folder / given.CONFIG).is_file() else None


def from_hub(name: str, revision: str) -> GivenModel:
    """The model of an id, asked of the hub: its config.json and the headers of its safetensors files."""
    if name.startswith(("/", ".", "~")) or name.count("/") != 1:
        raise UnusableError(f"{name}: no such folder, and no id such as meta-llama/Llama-3.1-8B-Instruct")
    try:
        hub = import_module("huggingface_hub")
    except ImportError as error:
        raise UnusableError(
            f"{name}: not a folder, and not in the Hugging Face cache; to ask the hub: pip install 'podfit[hub]'", 2
        ) from error
    try:
        config = Path(hub.hf_hub_download(name, given.CONFIG, revision=revision))
    except Exception as error:
        raise UnusableError(f"{name}: {_first_line(error)}", 3) from error
    models, errors = given.read({given.CONFIG: edge.read_text(config)}, f"Hugging Face hub: {name}@{revision}", ("it",))
    if errors:
        raise UnusableError(errors, 3)
    return GivenModel(models["it"].config, models["it"].source, _counted_by_hub(hub, name, revision))


def _counted_by_hub(hub: Any, name: str, revision: str) -> Counted:
    """The counts from the headers that the hub has; empty, with a note, if it has none."""
    try:
        files = hub.get_safetensors_metadata(name, revision=revision).files_metadata
    except Exception as error:
        edge.tell(f"note: {name}: weights are computed, not counted: {_first_line(error)}")
        return Counted()
    return given.of_headers(_tensors(files))


def _tensors(files: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """For each safetensors file of the hub's answer, its header as in the file: name → dtype, shape and offsets."""
    for value in files.values():
        yield {
            name: {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": tensor.data_offsets}
            for name, tensor in value.tensors.items()
        }


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()
