"""`podfit models`: what is known of a model, and teaching podfit one that it does not know."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podfit.base.printable import one_line
from podfit.cli.support import edge, terminal
from podfit.cli.support.checkpoints import locate
from podfit.cli.support.edge import UnusableError
from podfit.report import model as report
from podfit.vllm.facts import Fact
from podfit.vllm.model import given, given_model, nearest, recognise, search

LARGEST_CONFIG_MAP = 1_000_000
"""Bytes; Kubernetes stores at most 1 MiB in one object."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "models",
        help="find models and what is known of them; teach a new one",
        description="Finds, shows and adds models.",
        epilog=edge.examples(
            "podfit models search qwen3 coder",
            "podfit models show Qwen/Qwen3-8B",
            "podfit models add /checkpoints/chat-9b --name acme/chat-9b --namespace podfit-system | kubectl apply -f -",
        ),
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
            terminal.show(report.text(fact))
    if args.format == "json":
        terminal.write(json.dumps(trees, indent=1))
    return code


def run_search(args: argparse.Namespace) -> int:
    """Prints the id of each model found, with its size, the best match first; 0 also without a match."""
    given_ids = [name for name in edge.facts(args).models if name != "*"]
    found_models = search(args.words, given_ids)
    if args.format == "json":
        terminal.write(json.dumps([model.id for model in found_models], indent=1))
        return 0
    width = max((len(model.id) for model in found_models), default=0)
    for found_model in found_models:
        also = f"  also {', '.join(found_model.others)}" if found_model.others else ""
        terminal.write(one_line(f"{found_model.id:<{width}}  {_size(found_model.parameters):>7}{also}".rstrip()))
    if not found_models:
        near = nearest(" ".join(args.words)) or [neighbor for word in args.words for neighbor in nearest(word)]
        hint = f". Did you mean {' or '.join(near)}?" if near else ""
        edge.tell(f"note: no known model has {' and '.join(args.words)} in its name{hint}")
    return 0


def _size(parameters: int | None) -> str:
    return f"{parameters / 1e9:.1f} B" if parameters else ""


def run_add(args: argparse.Namespace) -> int:
    """Writes the facts; what was counted is said on standard error."""
    name, model = locate(args.model, args.revision)
    names = [given.key(item) for item in args.name] or [name]
    config = given.one_file(model.config, model.counted, names, model.source)
    if args.into:
        _write(args.into, names[0], config)
    else:
        _print_config_map(names, config, args.namespace)
    print(report.text(Fact(given_model(names[0], model), model.source, True)), end="", file=sys.stderr)
    return 0


def _write(into: Path, name: str, config: Mapping[str, Any]) -> None:
    """Write a model's config.json as INTO/ORG--NAME.json, and print that path; raises UnusableError (exit 3)."""
    target = into / f"{name.strip('/').replace('/', '--')}.json"
    try:
        into.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UnusableError(f"{target}: {(error.strerror or 'not writable').lower()}", 3) from error
    print(target)


def _print_config_map(names: list[str], config: Mapping[str, Any], namespace: str | None) -> None:
    """Print the ConfigMap of a model; raises UnusableError (exit 3) if it is too large for one."""
    obj = given.config_map(names[0], config, names)
    if namespace:
        obj["metadata"]["namespace"] = namespace
    out = edge.yaml_text(obj)
    if len(out.encode()) > LARGEST_CONFIG_MAP:
        raise UnusableError(
            f"{names[0]}: its config.json of {len(out) // 1000:,} kB does not fit a ConfigMap (1 MiB); "
            "--into DIR writes a file for --models instead",
            3,
        )
    print(out, end="")
