"""Policy documents: YAML or JSON → checked with pydantic → a `Layer` each. A mistake has its file, line and path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from podfit.evaluation.policy import records, shape, traps
from podfit.evaluation.policy.layer import KnownRelease, Layer, PolicyError, PolicyException, RuleSettings
from podfit.evaluation.policy.match import Match
from podfit.evaluation.policy.words import expiry_time, nearest
from podfit.kube import manifest, quantity
from podfit.kube.path import FieldPath
from podfit.kube.selector import Requirement, Selector
from podfit.rules import all_rules
from podfit.vllm import release

Wrong = list[tuple[FieldPath, str]]
"""Places in a document, and what is wrong there."""
_TITLES = "apiVersion podfit.dev/v1alpha1, kind Policy"


def read(texts: Iterable[tuple[str, str]]) -> list[Layer]:
    """The policies in `texts` (name of the file, its text); raises PolicyError with every problem of every file."""
    problems: list[str] = []
    layers: list[Layer] = []
    for name, text in texts:
        items, wrong = _read_file(name, text)
        layers += items
        problems += wrong
    if problems:
        raise PolicyError(problems)
    return layers


def of_object(obj: Mapping[str, Any], name: str) -> Layer:
    """The policy in an object, as the API server has it; raises PolicyError. `name` stands for the file."""
    wrong, place = check(obj), _place_of(name, lambda path: None)
    if wrong:
        raise PolicyError([f"{place(path)}: {str(path) or 'policy'}: {message}" for path, message in wrong])
    return _layer(obj, place)


def _read_file(name: str, text: str) -> tuple[list[Layer], list[str]]:
    """The layers of a policy file, and its problems as "file:line: path: message", by line. A place with a trap has no
    other problem, since what was read there is not what the author wrote."""
    read = manifest.read(text, name)
    items = [(error.line or 1, f"policy: {error.message}") for error in read.errors]
    items += [(note.line or 1, f"policy: {note.message}") for note in read.notes]
    if not items and not read.documents:
        items.append((1, f"policy: none in it: expected {_TITLES}"))
    layers = []
    trapped = _traps_by_place(text) if read.documents and not read.errors else {}
    for document in read.documents:
        entries = trapped.get(document.index, {})
        for path, message in check(document.object):
            if document.root.join(*path.parts).parts not in entries:
                items.append((document.line_of(path), f"{str(path) or 'policy'}: {message}"))
        items += [(note.line or 1, f"{note.path}: duplicate key, one of the two is lost") for note in document.notes]
        if not items and not entries:
            layers.append(_layer(document.object, _place_of(name, document.line_of)))
    items += [
        (line, f"{str(FieldPath(path)) or 'policy'}: {message}")
        for value in trapped.values()
        for path, rows in value.items()
        for line, message in rows
    ]
    return layers, [f"{name}:{line}: {message}" for line, message in sorted(items, key=lambda pair: pair[0])]


def _traps_by_place(text: str) -> dict[int, dict[tuple[str | int, ...], list[tuple[int, str]]]]:
    """Index of each document of a YAML stream → place → (line, message) of its traps; empty for JSON."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        try:
            json.loads(text)
        except ValueError:
            pass
        else:
            return {}
    entries: dict[int, dict[tuple[str | int, ...], list[tuple[int, str]]]] = {}
    for trap in traps.find(text):
        means_ignore = trap.path[-1:] == ("mode",) and "false" in trap.message  # `mode: off`
        message = f"{trap.message}; the mode is `ignore`" if means_ignore else trap.message
        entries.setdefault(trap.document, {}).setdefault(trap.path, []).append((trap.line, message))
    return entries


def _place_of(name: str, line_of: Callable[[FieldPath], int | None]) -> Callable[[FieldPath], str]:
    """A function from a field to "file:line", or the name alone where the line is unknown."""

    def place(path: FieldPath) -> str:
        """Where a field is: "file:line"."""
        line = line_of(path)
        return name if line is None else f"{name}:{line}"

    return place


# ── What is wrong ────────────────────────────────────────────────────────────────────────────────────────────────────


def check(obj: Mapping[str, Any]) -> Wrong:
    """The problems of a policy, by path; empty if it can be used."""
    if obj.get("kind") != "Policy" and not str(obj.get("apiVersion")).startswith("podfit.dev/"):
        text = f"{_quote_value(obj.get('apiVersion'))}, kind {_quote_value(obj.get('kind'))}"
        return [(FieldPath(("apiVersion",)), f"expected {_TITLES}, got apiVersion {text}")]
    empty = [path for path in _places(obj) if "spec" in obj and path.get(obj) is None]
    wrong = [(path, "is empty: leave it out, or give it a value") for path in empty]
    wrong += _validate(shape.DocumentShape, obj, FieldPath(), set(empty))
    value = FieldPath(("spec", "rules")).get(obj)
    for rule_id, item in value.items() if isinstance(value, Mapping) else ():
        place = FieldPath(("spec", "rules", rule_id))
        if rule_id not in all_rules():
            wrong.append((place, f"{rule_id!r} is not a rule{nearest(rule_id, all_rules())}"))
        elif isinstance(item, Mapping):
            wrong += _validate(shape.rule_shape(rule_id), item, place, {path for path, _ in wrong})
    return wrong + list(_selector_problems(obj))


def validate(model: type[BaseModel], obj: Mapping[str, Any]) -> Wrong:
    """The problems of an object by a shape (`model`), by path; empty if it is valid."""
    return _validate(model, obj, FieldPath(), set())


def _validate(model: type[BaseModel], obj: Mapping[str, Any], at: FieldPath, field_paths: set[FieldPath]) -> Wrong:
    """pydantic's errors as (path, message), without those at `field_paths`, which are reported already. `at`: the path
    of `obj` in the policy."""
    try:
        # As JSON: a policy has its types, and nothing is converted into others.
        model.model_validate_json(json.dumps(obj, default=str))
    except ValidationError as error:
        items = [
            (at.join(*(part for part in problem["loc"] if part not in _TYPE_NAMES)), problem)
            for problem in error.errors()
        ]
        below = {path.parts[:length] for path, _ in items for length in range(len(path.parts))}
        return [
            (path, _describe_problem(path, problem, model, at))
            for path, problem in items
            if path not in field_paths
            and not (problem["type"] == "too_short" and path.parts in below)  # of its valid items
        ]
    return []


_TYPE_NAMES = frozenset({"[key]", "int", "str", "constrained-str", records.SINGLE, records.LIST})
"""Parts that pydantic adds to a path, for a key of a mapping and for one of several types."""


_EXPECTED_TYPES = {
    "string_type": "text, in quotes where YAML reads it otherwise",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
}


def _describe_problem(path: FieldPath, problem: Any, model: type[BaseModel], at: FieldPath) -> str:
    """pydantic's error as a message of ours. `at`: the path of the model's object in the policy."""
    kind, given = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        siblings = _siblings(model, path.parts[len(at.parts) : -1])
        allowed = f" (allowed: {', '.join(siblings)})" if siblings else ""
        return f"unknown field{nearest(str(path.parts[-1]), siblings)}{allowed}"
    if kind == "missing":
        return "required, but absent"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "too_short":
        return "is empty: leave it out, or name at least one"
    if kind in _EXPECTED_TYPES:
        return f"expected {_EXPECTED_TYPES[kind]}, got {_quote_value(given)}"
    message = f"{problem['msg'][:1].lower()}{problem['msg'][1:]}".replace("True", "true").replace("False", "false")
    is_word = kind == "literal_error" and isinstance(given, str)
    near = nearest(given, problem["ctx"]["expected"].replace("'", " ").split()) if is_word else ""
    return f"{message}, got {_quote_value(given)}{near}"


def _siblings(model: type[BaseModel], parts: tuple[str | int, ...]) -> list[str]:
    """The fields allowed at a place of a model; empty if the place has no model."""
    current: Any = model
    for part in parts:
        if isinstance(part, int):
            continue
        info = next((item for name, item in current.model_fields.items() if (item.alias or name) == part), None)
        current = next(_models(info.annotation), None) if info else None
        if current is None:
            return []
    if current is shape.Metadata:
        return list(shape.WRITTEN)
    return [name for name in shape.field_names(current) if name != "status"]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type such as `list[ExceptionShape] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)


def _quote_value(value: object) -> str:
    """A value for one line of text: text in quotes, all else as JSON."""
    if isinstance(value, str):
        return f"{value!r:.60}"
    return "nothing" if value is None else json.dumps(value, default=str)[:60]


def _selector_problems(obj: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    """(place, problem) of each condition whose values do not go with its operator."""
    spec = obj.get("spec")
    matches = [FieldPath(("spec", "match"))]
    exceptions = spec.get("exceptions") if isinstance(spec, Mapping) else None
    matches += [
        FieldPath(("spec", "exceptions", index, "match"))
        for index in range(len(exceptions) if isinstance(exceptions, list) else 0)
    ]
    for match in matches:
        for selector in ("namespaceSelector", "objectSelector"):
            value = match.join(selector, "matchExpressions").get(obj)
            for index, item in enumerate(value if isinstance(value, list) else ()):
                problem = _requirement_problem(item) if isinstance(item, Mapping) else None
                if problem:
                    yield match.join(selector, "matchExpressions", index, "values"), problem


def _requirement_problem(requirement: Mapping[str, Any]) -> str | None:
    """The problem of the values of a selector's expression; None if they fit its operator. `values:` without a value is
    reported as empty already."""
    operator, values = requirement.get("operator"), requirement.get("values")
    is_empty = values is None and "values" in requirement
    if operator in ("In", "NotIn") and values in (None, []):
        return None if is_empty else f"required with {operator}: at least one value"
    if operator in ("Exists", "DoesNotExist") and values:
        return f"not with {operator}, which asks for no value"
    return None


# ── What it says ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _layer(obj: Mapping[str, Any], place: Callable[[FieldPath], str]) -> Layer:
    """A checked policy as a layer."""
    document = shape.DocumentShape.model_validate_json(json.dumps(obj, default=str))
    spec, name = document.spec, document.metadata.name
    return Layer(
        name=name,
        order=spec.order,
        match=_match_of(spec.match),
        shadow=spec.shadow,
        rules={rule_id: _said_of_rule(rule_id, item) for rule_id, item in spec.rules.items()},
        at_most=spec.enforce.mode,
        owned_pods=spec.enforce.owned_pods,
        mutate_workloads=spec.mutate.workloads,
        trust_mutation=spec.trust_mutation,
        assume=_assumptions_of(spec.assume),
        kinds={kind: tuple(paths) for kind, paths in spec.kinds.items()},
        images=tuple(
            (pattern, known_release)
            for pattern, text in spec.releases.images.items()
            if (known_release := release.parse(text))
        ),
        known=tuple(
            _known_release_of(name, known_release_shape) for name, known_release_shape in spec.releases.known.items()
        ),
        allow_ignore=None if spec.allow_ignore is None else tuple(spec.allow_ignore),
        exceptions=tuple(
            _exception_of(exception_shape, name, place(FieldPath(("spec", "exceptions", index, "expires"))))
            for index, exception_shape in enumerate(spec.exceptions)
        ),
        places={path: place(path) for path in _places(obj)},
    )


def _said_of_rule(rule_id: str, obj: Mapping[str, Any]) -> RuleSettings:
    """The values that a policy sets for a rule: mode, fix and parameters."""
    model = shape.rule_shape(rule_id).model_validate_json(json.dumps(obj))
    given = {name: records.plain(getattr(model, name)) for name in model.model_fields_set}
    return RuleSettings(given.pop("mode", None), given.pop("fix", None), given)


def _match_of(match_shape: shape.MatchShape) -> Match:
    """The checked `match` as what evaluation uses."""
    return Match(
        namespaces=None if match_shape.namespaces is None else tuple(match_shape.namespaces),
        excluded_namespaces=None if match_shape.excluded_namespaces is None else tuple(match_shape.excluded_namespaces),
        namespace_selector=_selector_of(match_shape.namespace_selector),
        object_selector=_selector_of(match_shape.object_selector),
        kinds=None if match_shape.kinds is None else tuple(match_shape.kinds),
    )


def _selector_of(label_selector: shape.LabelSelector | None) -> Selector | None:
    """The checked label selector as what evaluation uses."""
    if label_selector is None:
        return None
    labels = [Requirement(key, "In", (value,)) for key, value in label_selector.match_labels.items()]
    return Selector(
        (
            *labels,
            *(
                Requirement(label_requirement.key, label_requirement.operator, tuple(label_requirement.values))
                for label_requirement in label_selector.match_expressions
            ),
        )
    )


def _assumptions_of(assume_shape: shape.AssumeShape) -> dict[str, Any]:
    """Field of `Assumed` → value, of what the policy says."""
    entries = {name: getattr(assume_shape, name) for name in assume_shape.model_fields_set}
    for name in ("download_bandwidth", "disk_bandwidth"):
        if name in entries:
            entries[name] = quantity.parse(entries[name])
    if "registries" in entries:
        entries["registries"] = tuple(entries["registries"])
    return entries


def _known_release_of(name: str, known_release_shape: shape.KnownReleaseShape) -> KnownRelease:
    """A release that the policy adds, with its options by dest."""
    options = {
        option.dest or _dest_of_flags(option.flags): option.model_dump(exclude={"dest"}, exclude_defaults=True)
        for option in known_release_shape.options
    }
    return KnownRelease(name, known_release_shape.like, tuple(known_release_shape.removed), options)


def _dest_of_flags(flags: Iterable[str]) -> str:
    """The dest that argparse derives: the first long flag, else the first flag, with underscores."""
    long = [flag for flag in flags if flag.startswith("--")] or list(flags)
    return long[0].lstrip("-").replace("-", "_")


def _exception_of(read: shape.ExceptionShape, policy: str, place: str) -> PolicyException:
    """The checked exception as what evaluation uses."""
    expires = expiry_time(read.expires)
    assert expires is not None  # noqa: S101 - it was checked
    return PolicyException(
        rules=tuple(read.rules),
        match=_match_of(read.match),
        reason=read.reason.strip(),
        owner=read.owner.strip(),
        expires=expires,
        until=read.expires,
        policy=policy,
        place=place,
    )


def _places(obj: Mapping[str, Any]) -> Iterator[FieldPath]:
    """The path of `spec` and of everything in it, whatever is there."""
    queue = [FieldPath(("spec",))]
    for path in queue:  # grows while it is walked
        yield path
        queue += _child_paths(path, obj)


def _child_paths(path: FieldPath, obj: Mapping[str, Any]) -> list[FieldPath]:
    """The paths of a field's keys or items."""
    value = path.get(obj)
    if isinstance(value, Mapping):
        return [path / key for key in value]
    return [path / index for index in range(len(value))] if isinstance(value, list) else []
