"""`settings` in webhook/podfit/data/releases.json: what vLLM's config classes and registries take, by its own sources.

They are read, not run:

- names: what `--tool-call-parser`, `--reasoning-parser`, `--attention-backend`, `--quantization`, `--load-format` and
  others, and a KV connector may be called;
- configs: the fields of the class that a JSON argument fills (`--speculative-config`), and whether others are rejected;
- environment: the variables with choices (`env_with_choices` of envs.py, since 0.11), and those that are read as
  a number. The latter in releases that read every variable while they start (`enable_envs_cache`, since 0.11.1);
- variables: the names of those that begin with VLLM_, in releases of which envs.py was read;
- bounds: the arguments that `create_engine_config` hands to a class as they are, and whose field there has bounds.

Each is kept once with the spans of releases in which it holds: `[first, last, …]`, indices into `releases`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podfit.vllm.release import Release
from scripts.facts.config_classes import Classes, bounds, enumerations, trees
from scripts.facts.table import Extract, add_span, compact

CLASSES = {
    "speculative_config": "SpeculativeConfig",
    "compilation_config": "CompilationConfig",
    "kv_transfer_config": "KVTransferConfig",
    "kv_events_config": "KVEventsConfig",
}
"""dest → class, where the parser's own type does not name it."""
OLD = "entrypoints/openai/reasoning_parsers"
"""Where the reasoning parsers stood until 0.8."""
ONLY_WITH = {"LoRAConfig": "enable_lora"}
"""Classes that are only filled where something is switched on. Of no other one is a bound of an argument taken."""
ALWAYS = ("CacheConfig", "ParallelConfig", "SchedulerConfig", "ModelConfig", "LoadConfig", "ObservabilityConfig")


def arguments(sources: Path, classes: Classes) -> dict[str, dict[str, Any]]:
    """dest → the bounds of the field to which it is handed as it is."""
    tree = ast.parse((sources / "engine" / "arg_utils.py").read_text())
    defaulted = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith(" is None")
        for inner in node.body
    }
    written = {
        target.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AugAssign) and id(node) not in defaulted
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    }
    found: dict[str, dict[str, Any]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        name = node.func.id
        if name not in (*ALWAYS, *ONLY_WITH) or name not in classes.classes or not classes.checked(name):
            continue
        fields, rewritten = classes.fields(name), classes.rewritten(name)
        for word in node.keywords:
            value = word.value
            if word.arg is None or word.arg not in fields or {word.arg, "*"} & rewritten.keys():
                continue
            if not isinstance(value, ast.Attribute) or ast.unparse(value.value) != "self" or value.attr in written:
                continue
            limits = bounds(fields[word.arg][1])
            if limits and not value.attr.startswith("_"):
                found[value.attr] = limits | ({"with": ONLY_WITH[name]} if name in ONLY_WITH else {})
    return found


def registered(sources: Path, manager: str, table: str, *places: str) -> set[str]:
    """The names of a registry: of its decorators and of its table of lazy ones."""
    found: set[str] = set()
    for place in places:
        for tree in trees(sources / place):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    for one in node.decorator_list:
                        if isinstance(one, ast.Call) and ast.unparse(one.func) == f"{manager}.register_module":
                            found |= _texts(one) or {node.name}
                elif isinstance(node, ast.Assign | ast.AnnAssign):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    if ast.unparse(target) == table and isinstance(node.value, ast.Dict):
                        found |= {str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)}
    return found


def _texts(call: ast.Call) -> set[str]:
    named = [*call.args, *(word.value for word in call.keywords if word.arg == "name")]
    return {
        node.value
        for one in named
        for node in ast.walk(one)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def connectors(sources: Path) -> set[str]:
    """What KVConnectorFactory registers."""
    return {
        str(node.args[0].value)
        for tree in trees(sources / "distributed" / "kv_transfer")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("KVConnectorFactory.register_connector")
        and isinstance(node.args[0], ast.Constant)
    }


def backends(sources: Path) -> set[str]:
    """The members of the enumeration of attention backends."""
    for place, name in (
        ("v1/attention/backends/registry.py", "AttentionBackendEnum"),
        ("attention/backends/registry.py", "AttentionBackendEnum"),
        ("attention/backends/registry.py", "_Backend"),
        ("platforms/interface.py", "_Backend"),
        ("attention/selector.py", "_Backend"),
    ):
        if (sources / place).is_file() and (found := enumerations(ast.parse((sources / place).read_text())).get(name)):
            return set(found)
    return set()


def literal(classes: Classes, name: str, *besides: str) -> set[str]:
    """The values of a Literal that has a name of its own, which its field accepts besides any other text."""
    alias = classes.aliases.get(name)
    return {str(one) for one in classes.choices(alias) or ()} | {*besides} if alias is not None else set()


def formats(sources: Path) -> set[str]:
    """The config formats: "auto" and the keys of their registry."""
    file = sources / "transformers_utils" / "config.py"
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_CONFIG_FORMAT_TO_CONFIG_PARSER":
            return {
                "auto",
                *(str(key.value) for key in getattr(node.value, "keys", ()) if isinstance(key, ast.Constant)),
            }
    return set()


def methods(classes: Classes) -> set[str]:
    """What `--quantization` may name: a Literal since 0.8, before that the keys of a table, or a list."""
    for name in ("QuantizationMethods", "QUANTIZATION_METHODS"):
        value = classes.aliases.get(name)
        if isinstance(value, ast.Subscript):
            return {str(one) for one in classes.choices(value) or ()}
        words = value.keys if isinstance(value, ast.Dict) else value.elts if isinstance(value, ast.List) else []
        if words:
            return {str(one.value) for one in words if isinstance(one, ast.Constant)}
    return set()


def load_formats(sources: Path) -> set[str]:
    """The keys of the table of loaders; before 0.10 the parser has them as choices."""
    file = sources / "model_executor" / "model_loader" / "__init__.py"
    for node in ast.parse(file.read_text()).body if file.is_file() else ():
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_LOAD_FORMAT_TO_MODEL_LOADER":
            return {str(key.value) for key in getattr(node.value, "keys", ()) if isinstance(key, ast.Constant)}
    return set()


def variables(sources: Path) -> dict[str, dict[str, Any]]:
    """Variable → its choices, where they are spelled out, and whether capitals count; or the number that it holds."""
    file = sources / "envs.py"
    text = file.read_text() if file.is_file() else ""
    found: dict[str, dict[str, Any]] = {}
    tree = ast.parse(text)
    bodies = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            read = numbers(node, bodies)
            found |= {name: kind for name, kind in read.items() if "enable_envs_cache" in bodies or name in ON_IMPORT}
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "env_with_choices":
            continue
        name, _, choices, *more = node.args
        folded = [word.value for word in node.keywords if word.arg == "case_sensitive"] or more
        if isinstance(name, ast.Constant) and isinstance(choices, ast.List):
            told = {"choices": [one.value for one in choices.elts if isinstance(one, ast.Constant)]}
            fold = {"fold": "case"} if folded and ast.unparse(folded[0]) == "False" else {}
            found[str(name.value)] = {**told, **fold}
    return found


NUMBERS = {"int": "int", "float": "float", "maybe_convert_int": "int", "maybe_convert_bool": "switch"}
"""What envs.py reads a number with; `bool(int(…))` is a switch, too."""


ON_IMPORT = ("VLLM_CONFIGURE_LOGGING",)
"""What every release reads while it is imported (logger.py)."""


def numbers(table: ast.Dict, bodies: dict[str, ast.FunctionDef]) -> dict[str, dict[str, Any]]:
    """The variables of a table of envs.py (name → a lambda or a function that reads it) whose text becomes a number as
    it is."""
    found: dict[str, dict[str, Any]] = {}
    for key, one in zip(table.keys, table.values, strict=True):
        value = bodies.get(one.id) if isinstance(one, ast.Name) else one
        if not isinstance(key, ast.Constant) or not isinstance(value, ast.Lambda | ast.FunctionDef):
            continue
        name = str(key.value)
        asked = (f"os.getenv('{name}'", f"os.environ.get('{name}'", f"os.environ['{name}']")
        for call in ast.walk(value):
            if not isinstance(call, ast.Call) or len(call.args) != 1:
                continue
            of, inner = ast.unparse(call.func), ast.unparse(call.args[0])
            if of in NUMBERS and inner.startswith(asked):
                switch = f"bool({ast.unparse(call)})" in ast.unparse(value)
                found[name] = {"number": "switch" if switch else NUMBERS[of]}
    return found


def read(sources: Path, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the sources of a release (its folder `vllm`) take; `options` are those of its parser, by dest."""
    classes = Classes(sources)
    names = {
        "tool_call_parser": registered(
            sources, "ToolParserManager", "_TOOL_PARSERS_TO_REGISTER", "entrypoints", "tool_parsers"
        ),
        "reasoning_parser": registered(
            sources, "ReasoningParserManager", "_REASONING_PARSERS_TO_REGISTER", "reasoning", OLD
        ),
        "kv_connector": connectors(sources),
        "attention_backend": backends(sources),
        "quantization": methods(classes),
        "load_format": load_formats(sources),
        "distributed_executor_backend": literal(classes, "DistributedExecutorBackend"),
        "kv_cache_dtype": literal(classes, "CacheDType"),
        "mamba_backend": {*classes.enumerations.get("MambaBackendEnum", ())},
        "config_format": formats(sources),
    }
    configs: dict[str, dict[str, Any]] = {}
    for dest, row in options.items():
        name = CLASSES.get(dest) or (row.get("type") or "").rpartition("json[")[2].rstrip("]")
        if name not in classes.classes:
            continue
        config = configs.setdefault(dest, {"strict": [], "fields": {}})
        for path, strict, known in classes.walk(name):
            if strict:
                config["strict"].append(path)
            else:
                config["fields"][path] = known
    return {
        "names": {kind: sorted(found) for kind, found in sorted(names.items()) if found},
        "configs": {dest: _by_name(config) for dest, config in sorted(configs.items())},
        "bounds": dict(sorted(arguments(sources, classes).items())),
        "environment": dict(sorted(variables(sources).items())),
    }


def build(extracts: Mapping[Release, Extract]) -> dict[str, Any]:
    """The whole table."""
    read = {release: extract for release, extract in extracts.items() if "names" in extract}
    names: dict[str, dict[str, list[list[Any]]]] = {}
    configs: dict[str, dict[str, dict[str, list[list[Any]]]]] = {}
    limits: dict[str, list[list[Any]]] = {}
    environment: dict[str, list[list[Any]]] = {}
    names_of_variables: dict[str, list[list[Any]]] = {}
    for number, extract in enumerate(read.values()):
        for kind, found in extract["names"].items():
            for name in found:
                add_span(names.setdefault(kind, {}).setdefault(name, []), number)
        for dest, said in extract["configs"].items():
            config = configs.setdefault(dest, {"strict": {}, "fields": {}})
            for path in said["strict"]:
                add_span(config["strict"].setdefault(path, []), number)
            for path, known in said["fields"].items():
                add_span(config["fields"].setdefault(path, []), number, *([known] if known else []))
        for dest, bound in extract["bounds"].items():
            add_span(limits.setdefault(dest, []), number, bound)
        for variable, known in extract["environment"].items():
            add_span(environment.setdefault(variable, []), number, known)
        for name in extract.get("variables", ()):
            if name.startswith("VLLM_"):
                add_span(names_of_variables.setdefault(name, []), number)
    return {
        "releases": [str(release) for release in read],
        "names": {kind: dict(sorted(found.items())) for kind, found in names.items()},
        "configs": {dest: _by_name(config) for dest, config in sorted(configs.items())},
        "bounds": dict(sorted(limits.items())),
        "environment": dict(sorted(environment.items())),
        "variables": dict(sorted(names_of_variables.items())),
    }


def _by_name(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config's strict classes as they are, and its fields by their names: their order in a class says nothing."""
    return {**config, "fields": dict(sorted(config["fields"].items()))}


def text(table: Mapping[str, Any]) -> str:
    """The file: a line for each name and definition."""

    def lines(rows: dict[str, Any]) -> str:
        return ",\n".join(f"{compact(key)}:{compact(value)}" for key, value in rows.items())

    def blocks(groups: dict[str, dict[str, Any]]) -> str:
        return ",\n".join(f"{compact(name)}:{{\n{lines(rows)}\n}}" for name, rows in groups.items())

    configs = ",\n".join(f"{compact(dest)}:{{\n{blocks(config)}\n}}" for dest, config in table["configs"].items())
    return (
        f'{{\n"releases":{compact(table["releases"])},\n"names":{{\n{blocks(table["names"])}\n}},\n'
        f'"configs":{{\n{configs}\n}},\n"bounds":{{\n{lines(table["bounds"])}\n}},\n'
        f'"environment":{{\n{lines(table["environment"])}\n}},\n"variables":{{\n{lines(table["variables"])}\n}}\n}}\n'
    )
