"""Builds webhook/data/settings.json, what vLLM's config classes and registries take, from vLLM's own sources.

    python scripts/build_settings.py SOURCE_DIR

SOURCE_DIR holds a folder a release with the wheel's Python sources (`<release>/vllm/…`). They are read, not run:

- names: what `--tool-call-parser`, `--reasoning-parser`, `--attention-backend`, `--quantization`, `--load-format` and a
  KV connector may be called;
- configs: the fields of the class that a JSON argument fills (`--speculative-config`), and whether others are refused;
- bounds: the arguments that `create_engine_config` hands to a class as they are, and whose field there has bounds.

Each is kept once with the spans of releases in which it holds: `[first, last, …]`, indices into `releases`.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from webhook.args.flags import builtin
from webhook.release import parse

TARGET = Path(__file__).parent.parent / "webhook" / "data" / "settings.json"
CLASSES = {
    "speculative_config": "SpeculativeConfig",
    "compilation_config": "CompilationConfig",
    "kv_transfer_config": "KVTransferConfig",
    "kv_events_config": "KVEventsConfig",
}
"""dest → class, where the parser's own type does not name it."""
OLD = "entrypoints/openai/reasoning_parsers"
"""Where the reasoning parsers stood until 0.8."""
DEEPEST = 2
BOUNDS = ("ge", "gt", "le", "lt")
ONLY_WITH = {"LoRAConfig": "enable_lora"}
"""Classes that are only filled where something is switched on. Of no other one is a bound of an argument taken."""
FILLED_BY_VLLM = ("target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config")
"""Fields that no command line gives; what is in them is not looked at."""
ALWAYS = ("CacheConfig", "ParallelConfig", "SchedulerConfig", "ModelConfig", "LoadConfig", "ObservabilityConfig")
STRICT_WITHOUT_PYDANTIC = "SpeculativeConfig"
"""`SpeculativeConfig(**given)`: a plain dataclass takes no unknown keyword. Of the others, a TypeAdapter of a plain
dataclass passes over unknown keys."""


def _trees(folder: Path) -> Iterator[ast.Module]:
    """The modules in it; none where the release has no such folder."""
    for file in sorted(folder.rglob("*.py")):
        yield ast.parse(file.read_text(encoding="utf-8"))


class Classes:
    """The config classes of one release."""

    def __init__(self, sources: Path) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.pydantic: dict[str, bool] = {}
        """Class → its dataclass decorator is pydantic's."""
        self.forbids = False
        """The decorator `config` makes a pydantic dataclass that refuses unknown fields."""
        folder = sources / "config"
        trees = [*_trees(folder)] if folder.is_dir() else [ast.parse((sources / "config.py").read_text())]
        for extra in ("model_executor/layers/quantization/__init__.py", "attention/backends/registry.py"):
            if (sources / extra).is_file():
                self._aliases(ast.parse((sources / extra).read_text()))
        for tree in trees:
            self._aliases(tree)
            ours = any(
                isinstance(node, ast.ImportFrom)
                and (node.module or "").startswith("pydantic")
                and any((name.asname or name.name) == "dataclass" for name in node.names)
                for node in ast.walk(tree)
            )
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name] = node
                    self.pydantic[node.name] = ours
                if isinstance(node, ast.FunctionDef) and node.name == "config":
                    self.forbids = self.forbids or "extra='forbid'" in ast.unparse(node)

    def _aliases(self, tree: ast.Module) -> None:
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.aliases[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                self.aliases[node.target.id] = node.value

    def checked(self, name: str) -> bool:
        """Values of its fields are checked: a pydantic dataclass."""
        node = self.classes[name]
        decorators = [ast.unparse(one) for one in node.decorator_list]
        if any(one.startswith("config") for one in decorators) and self.forbids:
            return True
        return self.pydantic[name] and any(one.startswith("dataclass") for one in decorators)

    def strict(self, name: str) -> bool:
        """A key that is no field is refused."""
        node = self.classes[name]
        decorators = [ast.unparse(one) for one in node.decorator_list]
        if any("mode='before'" in ast.unparse(one) and "model_validator" in ast.unparse(one) for one in _methods(node)):
            return False  # it may rename what is given
        if any(one.startswith("config") for one in decorators) and self.forbids:
            return not any("extra=" in one and "forbid" not in one for one in decorators)
        if any("extra='forbid'" in one for one in decorators):
            return self.pydantic[name]
        return name == STRICT_WITHOUT_PYDANTIC and not self.pydantic[name] and "dataclass" in decorators

    def fields(self, name: str) -> dict[str, tuple[ast.expr, ast.expr | None]]:
        """Field → its annotation and its default."""
        node = self.classes[name]
        found: dict[str, tuple[ast.expr, ast.expr | None]] = {}
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in self.classes:
                found.update(self.fields(base.id))
        for one in node.body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                found[one.target.id] = (one.annotation, one.value)
        return found

    def choices(self, annotation: ast.expr) -> list[Any] | None:
        """The values of a Literal; None where it takes others, or where that can't be read off."""
        if isinstance(annotation, ast.Constant):
            if not isinstance(annotation.value, str):
                return [None] if annotation.value is None else None
            return self.choices(ast.parse(annotation.value, mode="eval").body)
        if isinstance(annotation, ast.Name):
            return self.choices(self.aliases[annotation.id]) if annotation.id in self.aliases else None
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
            sides = [self.choices(annotation.left), self.choices(annotation.right)]
            return None if None in sides else [value for side in sides for value in side or ()]
        if isinstance(annotation, ast.Subscript):
            kind = ast.unparse(annotation.value).rpartition(".")[2]
            inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            if kind == "Literal":
                return [value for one in inner for value in self._literal(one)]
            if kind in ("Optional", "Union"):
                sides = [self.choices(one) for one in inner]
                values = None if None in sides else [value for side in sides for value in side or ()]
                return values if kind == "Union" or values is None else [*values, None]
        return None

    def _literal(self, node: ast.expr) -> list[Any]:
        if isinstance(node, ast.Constant):
            return [node.value]
        found = self.choices(node)
        if found is None:
            raise ValueError(f"not a literal: {ast.unparse(node)}")
        return found

    def nested(self, annotation: ast.expr) -> str | None:
        """The config class that a field is, if it is one."""
        names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)} & self.classes.keys()
        plain = not any(isinstance(node, ast.Subscript) for node in ast.walk(annotation))
        return names.pop() if len(names) == 1 and plain else None

    def rewritten(self, name: str) -> frozenset[str]:
        """Fields that a validator sees before pydantic does; "*" for all of them."""
        return frozenset(
            str(argument.value)
            for one in _methods(self.classes[name])
            if "field_validator" in ast.unparse(one) and "mode='before'" in ast.unparse(one)
            for argument in getattr(one, "args", ())
            if isinstance(argument, ast.Constant)
        )

    def walk(self, name: str, above: str = "") -> Iterator[tuple[str, bool, dict[str, Any]]]:
        """`(path, True, {})` for each class that refuses what it does not know, "" for the outermost, and
        `(path, False, what is known of its value)` for each field."""
        rewritten = self.rewritten(name)
        if self.strict(name):
            yield above, True, {}
        for field, (annotation, default) in self.fields(name).items():
            path = f"{above}.{field}".lstrip(".")
            known: dict[str, Any] = {}
            if self.checked(name) and not {field, "*"} & rewritten:
                choices = self.choices(annotation)
                known = bounds(default) | (
                    {"choices": [*dict.fromkeys(c for c in choices if c is not None)]} if choices else {}
                )
            yield path, False, known if known.get("choices", True) else {}
            inner = self.nested(annotation)
            if inner is not None and field not in FILLED_BY_VLLM and self.strict(inner) and path.count(".") < DEEPEST:
                yield from self.walk(inner, path)


def _methods(node: ast.ClassDef) -> Iterator[ast.expr]:
    """The decorators of a class's methods."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef):
            yield from one.decorator_list


def bounds(default: ast.expr | None) -> dict[str, Any]:
    """`Field(ge=1)` → {"ge": 1}."""
    if not isinstance(default, ast.Call):
        return {}
    return {
        word.arg: word.value.value
        for word in default.keywords
        if word.arg in BOUNDS and isinstance(word.value, ast.Constant)
    }


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
            if word.arg is None or word.arg not in fields or {word.arg, "*"} & rewritten:
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
        for tree in _trees(sources / place):
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
        for tree in _trees(sources / "distributed" / "kv_transfer")
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
        if not (sources / place).is_file():
            continue
        for node in ast.parse((sources / place).read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return {
                    target.id
                    for one in node.body
                    if isinstance(one, ast.Assign)
                    for target in one.targets
                    if isinstance(target, ast.Name) and not target.id.startswith("_")
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
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_LOAD_FORMAT_TO_MODEL_LOADER":
            return {str(key.value) for key in getattr(node.value, "keys", ()) if isinstance(key, ast.Constant)}
    return set()


def build(source: Path) -> dict[str, Any]:
    """The whole table."""
    folders = {parse(folder.name): folder / "vllm" for folder in source.iterdir()}
    releases = sorted(release for release in folders if release is not None)
    flags = builtin()
    names: dict[str, dict[str, list[list[Any]]]] = {}
    configs: dict[str, dict[str, dict[str, list[list[Any]]]]] = {}
    limits: dict[str, list[list[Any]]] = {}
    for number, release in enumerate(releases):
        sources = folders[release]
        classes = Classes(sources)
        for kind, found in (
            (
                "tool_call_parser",
                registered(sources, "ToolParserManager", "_TOOL_PARSERS_TO_REGISTER", "entrypoints", "tool_parsers"),
            ),
            (
                "reasoning_parser",
                registered(sources, "ReasoningParserManager", "_REASONING_PARSERS_TO_REGISTER", "reasoning", OLD),
            ),
            ("kv_connector", connectors(sources)),
            ("attention_backend", backends(sources)),
            ("quantization", methods(classes)),
            ("load_format", load_formats(sources)),
        ):
            for name in sorted(found):
                _span(names.setdefault(kind, {}).setdefault(name, []), number)
        near = min((one for one in flags.releases if one >= release), default=flags.releases[-1])
        for dest, row in flags.rows(near).items():
            name = CLASSES.get(dest) or (row.get("type") or "").rpartition("json[")[2].rstrip("]")
            if name not in classes.classes:
                continue
            for path, strict, known in classes.walk(name):
                config = configs.setdefault(dest, {"strict": {}, "fields": {}})
                if strict:
                    _span(config["strict"].setdefault(path, []), number)
                else:
                    _span(config["fields"].setdefault(path, []), number, *([known] if known else []))
        for dest, bound in arguments(sources, classes).items():
            _span(limits.setdefault(dest, []), number, bound)
    return {
        "releases": [str(release) for release in releases],
        "names": {kind: dict(sorted(found.items())) for kind, found in names.items()},
        "configs": dict(sorted(configs.items())),
        "bounds": dict(sorted(limits.items())),
    }


def _span(spans: list[list[Any]], number: int, *what: Any) -> None:
    if spans and spans[-1][1] == number - 1 and spans[-1][2:] == [*what]:
        spans[-1][1] = number
    else:
        spans.append([number, number, *what])


def main() -> None:
    """Writes the table, one name and one definition a line, so that a diff can be read."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    table = build(Path(sys.argv[1]))

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    def lines(rows: dict[str, Any]) -> str:
        return ",\n".join(f"{compact(key)}:{compact(value)}" for key, value in rows.items())

    def blocks(groups: dict[str, dict[str, Any]]) -> str:
        return ",\n".join(f"{compact(name)}:{{\n{lines(rows)}\n}}" for name, rows in groups.items())

    configs = ",\n".join(f"{compact(dest)}:{{\n{blocks(config)}\n}}" for dest, config in table["configs"].items())
    text = (
        f'{{\n"releases":{compact(table["releases"])},\n"names":{{\n{blocks(table["names"])}\n}},\n'
        f'"configs":{{\n{configs}\n}},\n"bounds":{{\n{lines(table["bounds"])}\n}}\n}}\n'
    )
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
