"""What the Python sources of a release say of vLLM's config classes, for scripts/facts/settings.py.

They are read, not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEEPEST = 2
BOUNDS = ("ge", "gt", "le", "lt")
FILLED_BY_VLLM = ("target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config")
"""Fields that no command line gives; what is in them is not looked at."""
STRICT_WITHOUT_PYDANTIC = "SpeculativeConfig"
"""`SpeculativeConfig(**given)`: a plain dataclass takes no unknown keyword. Of the others, a TypeAdapter of a plain
dataclass passes over unknown keys."""
REFUSES: dict[type[ast.cmpop], str] = {ast.LtE: "gt", ast.Lt: "ge"}
"""A comparison that ends in an error → what is taken instead."""
ENUMERATIONS = ("v1/attention/backends", "attention/backends")
"""Where enumerations are that config classes name, besides their own folder."""


def trees(folder: Path) -> Iterator[ast.Module]:
    """The modules in it; none where the release has no such folder."""
    for file in sorted(folder.rglob("*.py")):
        yield ast.parse(file.read_text(encoding="utf-8"))


def enumerations(tree: ast.Module) -> dict[str, dict[str, Any]]:
    """Enumeration → its members and their values; None for a value that is not a constant."""
    return {
        node.name: {
            target.id: one.value.value if isinstance(one.value, ast.Constant) else None
            for one in node.body
            if isinstance(one, ast.Assign)
            for target in one.targets
            if isinstance(target, ast.Name) and not target.id.startswith("_")
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Enum") for base in node.bases)
    }


class Classes:
    """The config classes of one release."""

    def __init__(self, sources: Path) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.pydantic: dict[str, bool] = {}
        """Class → its dataclass decorator is pydantic's."""
        self.enumerations: dict[str, dict[str, Any]] = {}
        self.forbids = False
        """The decorator `config` makes a pydantic dataclass that rejects unknown fields."""
        folder = sources / "config"
        modules = [*trees(folder)] if folder.is_dir() else [ast.parse((sources / "config.py").read_text())]
        for extra in ("model_executor/layers/quantization/__init__.py", "attention/backends/registry.py"):
            if (sources / extra).is_file():
                self._aliases(ast.parse((sources / extra).read_text()))
        for place in ENUMERATIONS:
            for tree in trees(sources / place):
                self.enumerations.update(enumerations(tree))
        for tree in modules:
            self._aliases(tree)
            self.enumerations.update(enumerations(tree))
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
        """Whether a key that is not a field is rejected."""
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
        """Field of the constructor → its annotation and its default."""
        node = self.classes[name]
        found: dict[str, tuple[ast.expr, ast.expr | None]] = {}
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in self.classes:
                found.update(self.fields(base.id))
        for one in node.body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and _is_given(one):
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

    def kind(self, annotation: ast.expr) -> str | None:
        """ "int", "float" or "bool", if a field takes nothing else but null."""
        kinds = {ast.unparse(side).removeprefix("Optional[").removesuffix("]") for side in _sides(annotation)} - {
            "None"
        }
        if kinds == {"int", "float"}:
            return "float"
        return kinds.pop() if len(kinds) == 1 and kinds <= {"int", "float", "bool"} else None

    def rewritten(self, name: str) -> dict[str, ast.FunctionDef]:
        """Fields that a validator sees before pydantic does, "*" for all of them, and that validator."""
        return {
            str(argument.value): method
            for method in self.classes[name].body
            if isinstance(method, ast.FunctionDef)
            for one in method.decorator_list
            if "field_validator" in ast.unparse(one) and "mode='before'" in ast.unparse(one)
            for argument in getattr(one, "args", ())
            if isinstance(argument, ast.Constant)
        }

    def spelt(self, validator: ast.FunctionDef, annotation: ast.expr) -> dict[str, Any]:
        """What a field takes whose names a validator writes otherwise first; empty where it does anything else.

        `Mode[value.upper()]` are an enumeration's members in any case (`"fold": "case"`), `value.lower().replace("-",
        "_")` those of a Literal with either sign (`"dash"`). Attention backends have a list of their own (`"names"`).
        """
        text = ast.unparse(validator)
        named = {
            ast.unparse(node.value)
            for node in ast.walk(validator)
            if isinstance(node, ast.Subscript) and ast.unparse(node.slice) in ("value.upper()", "mode_name")
        } & self.enumerations.keys()
        if len(named) == 1:
            name = named.pop()
            members = self.enumerations[name]
            also = ["auto"] if "value.lower() == 'auto'" in text else []
            if name == "AttentionBackendEnum":
                return {"choices": also, "names": "attention_backend", "fold": "case"}
            numbers = [value for value in members.values() if type(value) is int]
            return {"choices": [*members, *also, *numbers], "fold": "case"}
        if "return value.lower().replace('-', '_')" in text:
            return {"choices": self.choices(annotation), "fold": "dash"}
        return {}

    def known(self, name: str, field: str) -> dict[str, Any]:
        """What a class's field takes, as far as that is a list, a range or a plain type."""
        annotation, default = self.fields(name)[field]
        rewritten = self.rewritten(name)
        if "*" in rewritten:
            return {}
        if field in rewritten:
            known = self.spelt(rewritten[field], annotation)
        else:
            choices, kind = self.choices(annotation), self.kind(annotation)
            listed = [*dict.fromkeys(one for one in choices or () if one is not None)]
            known = bounds(default) | ({"choices": listed} if choices else {}) | ({"type": kind} if kind else {})
        return known if known.get("choices", True) or "names" in known else {}

    def guards(self, name: str) -> dict[str, dict[str, Any]]:
        """Field → the bounds that a check after it was filled puts: `if self.num_speculative_tokens <= 0: raise …`.

        Only those that always run: the top statements of a validator, or of a method that `__post_init__`
        ends with.
        """
        found: dict[str, dict[str, Any]] = {}
        for method in self.classes[name].body:
            if not isinstance(method, ast.FunctionDef) or not self._always(name, method):
                continue
            for one in method.body:
                if any(isinstance(inner, ast.Return) for inner in ast.walk(one)):
                    break
                if not isinstance(one, ast.If) or not isinstance(one.body[0], ast.Raise):
                    continue
                test = one.test
                if not isinstance(test, ast.Compare) or not isinstance(test.comparators[0], ast.Constant):
                    continue
                field, word = ast.unparse(test.left).removeprefix("self."), REFUSES.get(type(test.ops[0]))
                if word is not None and field in self.fields(name) and len(test.ops) == 1:
                    found.setdefault(field, {})[word] = test.comparators[0].value
        return found

    def _always(self, name: str, method: ast.FunctionDef) -> bool:
        if any(
            "model_validator" in ast.unparse(one) and "'after'" in ast.unparse(one) for one in method.decorator_list
        ):
            return True
        last = [
            ast.unparse(other.body[-1])
            for other in self.classes[name].body
            if isinstance(other, ast.FunctionDef) and other.name == "__post_init__"
        ]
        return last == [f"self.{method.name}()"]

    def walk(self, name: str, above: str = "") -> Iterator[tuple[str, bool, dict[str, Any]]]:
        """`(path, True, {})` for each class that rejects unknown fields, "" for the outermost, and
        `(path, False, what is known of its value)` for each field."""
        if self.strict(name):
            yield above, True, {}
        guards = self.guards(name)
        for field, (annotation, _) in self.fields(name).items():
            path = f"{above}.{field}".lstrip(".")
            known = self.known(name, field) if self.checked(name) else {}
            yield path, False, guards.get(field, {}) | known
            inner = self.nested(annotation)
            if inner is not None and field not in FILLED_BY_VLLM and self.strict(inner) and path.count(".") < DEEPEST:
                yield from self.walk(inner, path)


def _sides(annotation: ast.expr) -> Iterator[ast.expr]:
    """`int | None` → `int`, `None`."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        yield from _sides(annotation.left)
        yield from _sides(annotation.right)
    else:
        yield annotation


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


def _is_given(field: ast.AnnAssign) -> bool:
    """The constructor takes the field: it is neither a class variable nor `init=False`."""
    if "ClassVar" in ast.unparse(field.annotation):
        return False
    options = field.value.keywords if isinstance(field.value, ast.Call) else []
    return not any(one.arg == "init" and isinstance(one.value, ast.Constant) and not one.value.value for one in options)
