"""`podfit models`: what is known of a model, and teaching podfit one that it does not know."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from podfit.cli.support import edge
from podfit.cli.support.edge import UnusableError
from podfit.report import model as report
from podfit.vllm.facts import Counted, Fact, GivenModel
from podfit.vllm.model import given, given_model, nearest, recognise, search

LARGEST_HEADER = 100_000_000
"""Bytes; the safetensors library rejects longer headers."""
LARGEST_CONFIG_MAP = 1_000_000
"""Bytes; Kubernetes stores at most 1 MiB in one object."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "models",
        help="find models and what is known of them; teach a new one",
        description="Finds, shows and adds models.",
        epilog=edge.examples(
            "podfit models search qwen3 coder",
            "podfit models show Qwen/Qwen3-8B",
            "podfit models add /checkpoints/chat-9b --name acme/chat-9b --namespace podfit-system | kubectl apply -f -",
        ),
        formatter_class=edge.Examples,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    show = actions.add_parser(
        "show", help="a model's facts with their source", description="Prints what is known of a model, and from where."
    )
    show.add_argument("names", nargs="+", metavar="ID|PATH")
    edge.add_models(show)
    show.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    show.set_defaults(run=run_show)
    search = actions.add_parser(
        "search",
        help="find known models by words in their ids",
        description="Lists known models whose ids, or other names, have all of the words, in any case.",
        epilog=edge.examples("podfit models search qwen3 coder"),
        formatter_class=edge.Examples,
    )
    search.add_argument("words", nargs="+", metavar="WORD")
    edge.add_models(search)
    search.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    search.set_defaults(run=run_search)
    add = actions.add_parser(
        "add",
        help="write the facts of a model: a ConfigMap, or a file for --models",
        description="Reads a model's config.json and the headers of its safetensors files, and writes the ConfigMap "
        "that teaches it to podfit. An ID that is neither a folder nor in the local Hugging Face cache is asked of the "
        "hub, with huggingface_hub where that is installed.",
    )
    add.add_argument("model", metavar="DIR|ID")
    add.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="what manifests call the model, an id or a path; several (default: the ID, or the folder's name)",
    )
    add.add_argument("--into", type=Path, metavar="DIR", help="write DIR/NAME.json for --models, and no ConfigMap")
    add.add_argument("--namespace", metavar="NS", help="the ConfigMap's namespace")
    add.add_argument("--revision", default="main", metavar="REV", help="branch, tag or commit of an ID (default: main)")
    add.set_defaults(run=run_add)


def run_show(args: argparse.Namespace) -> int:
    """Prints each model; 2 if one is unknown."""
    facts = edge.facts(args)
    code = 0
    trees = []
    for name in args.names:
        fact = recognise(name, facts)
        if fact is None:
            near = nearest(name)
            hint = f"Did you mean {' or '.join(near)}?" if near else "Fix: teach it with podfit models add"
            edge.tell(f"error: unknown model {name!r}. {hint}")
            code = 2
        elif args.format == "json":
            trees.append(report.tree(fact))
        else:
            print(report.text(fact), end="")
    if args.format == "json":
        print(json.dumps(trees, indent=1))
    return code


def run_search(args: argparse.Namespace) -> int:
    """Prints the id of each model found, with its size, the best match first; 0 also without a match."""
    given_ids = [name for name in edge.facts(args).models if name != "*"]
    found = search(args.words, given_ids)
    if args.format == "json":
        print(json.dumps([one.id for one in found], indent=1))
        return 0
    width = max((len(one.id) for one in found), default=0)
    for one in found:
        also = f"  also {', '.join(one.others)}" if one.others else ""
        print(f"{one.id:<{width}}  {_size(one.parameters):>7}{also}".rstrip())
    if not found:
        near = nearest(" ".join(args.words)) or [one for word in args.words for one in nearest(word)]
        hint = f". Did you mean {' or '.join(near)}?" if near else ""
        edge.tell(f"note: no known model has {' and '.join(args.words)} in its name{hint}")
    return 0


def _size(parameters: int | None) -> str:
    return f"{parameters / 1e9:.1f} B" if parameters else ""


def run_add(args: argparse.Namespace) -> int:
    """Writes the facts; what was counted is said on standard error."""
    name, found = locate(args.model, args.revision)
    names = [given.key(one) for one in args.name] or [name]
    config = given.one_file(found.config, found.counted, names, found.source)
    if args.into:
        _write(args.into, names[0], config)
    else:
        _print_config_map(names, config, args.namespace)
    print(report.text(Fact(given_model(names[0], found), found.source, True)), end="", file=sys.stderr)
    return 0


def locate(model: str, revision: str = "main") -> tuple[str, GivenModel]:
    """The name and the facts of a model: a folder, an id in the local Hugging Face cache, or one of the hub. Raises
    UnusableError."""
    path = Path(model)
    if path.is_dir():
        return _name_of(path), read_folder(path, str(path))
    folder = _cached(model, revision)
    if folder is not None:
        return model, read_folder(folder, f"Hugging Face cache: {model}")
    return model, _from_hub(model, revision)


def _write(into: Path, name: str, config: Mapping[str, Any]) -> None:
    target = into / f"{name.strip('/').replace('/', '--')}.json"
    try:
        into.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UnusableError(f"{target}: {(error.strerror or 'not writable').lower()}", 3) from error
    print(target)


def _print_config_map(names: list[str], config: Mapping[str, Any], namespace: str | None) -> None:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Texts of several lines as blocks."""

    Dumper.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None),
    )
    obj = given.config_map(names[0], config, names)
    if namespace:
        obj["metadata"]["namespace"] = namespace
    out = yaml.dump(obj, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20)
    if len(out.encode()) > LARGEST_CONFIG_MAP:
        raise UnusableError(
            f"{names[0]}: its config.json of {len(out) // 1000:,} kB does not fit a ConfigMap (1 MiB); "
            "--into DIR writes a file for --models instead",
            3,
        )
    print(out, end="")


def _name_of(path: Path) -> str:
    """A folder's model: of a Hugging Face cache its id, else the folder's own name."""
    whole = path.resolve().as_posix()
    found = given.cached(whole)
    return found if found != whole else path.resolve().name


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
    found, errors = given.read(entries, source, ("it",))
    if errors:
        raise UnusableError(errors, 3)
    model = found["it"]
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


def _cached(name: str, revision: str) -> Path | None:
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


def _from_hub(name: str, revision: str) -> GivenModel:
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
    found, errors = given.read({given.CONFIG: edge.read_text(config)}, f"Hugging Face hub: {name}@{revision}", ("it",))
    if errors:
        raise UnusableError(errors, 3)
    return GivenModel(found["it"].config, found["it"].source, _counted_by_hub(hub, name, revision))


def _counted_by_hub(hub: Any, name: str, revision: str) -> Counted:
    try:
        files = hub.get_safetensors_metadata(name, revision=revision).files_metadata
    except Exception as error:
        edge.tell(f"note: {name}: weights are computed, not counted: {_first_line(error)}")
        return Counted()
    return given.of_headers(_tensors(files))


def _tensors(files: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for one in files.values():
        yield {
            name: {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": tensor.data_offsets}
            for name, tensor in one.tensors.items()
        }


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()
