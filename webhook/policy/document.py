"""Policy documents: YAML → checked with pydantic → applied over a Policy. Every mistake has its file, line and path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator
from pydantic.alias_generators import to_camel

from webhook import gpu, manifest, quantity, release
from webhook.args import Releases, taught
from webhook.args.taught import TaughtError
from webhook.path import FieldPath
from webhook.policy import Assume, Enforce, Policy, PolicyError, Setting
from webhook.rule import Fix, Mode, Rule
from webhook.rules import all_rules

API_VERSION = "podfit.dev/v1alpha1"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=False)


class _Metadata(_Strict):
    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class _Enforce(_Strict):
    owned_pods: Literal["warn", "deny"] | None = None


class _Mutate(_Strict):
    workloads: bool | None = None


class _Assume(_Strict):
    gpu: str | None = None
    nodes: Literal["open", "closed"] | None = None
    download_rate: str | int | None = None

    @field_validator("download_rate")
    @classmethod
    def _is_a_rate(cls, value: str | int | None) -> str | int | None:
        if value is not None and (quantity.try_parse(value) or 0) <= 0:
            raise ValueError("expected bytes a second as a quantity, such as 500M")
        return value

    @field_validator("gpu")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value:
            gpu.parse(value)
        return value


class _Option(_Strict):
    """One option of vLLM's parser, as argparse's add_argument has it."""

    dest: str | None = None
    """Default: the first long flag, with underscores."""
    flags: list[str] = Field(default_factory=list)
    negative: list[str] = Field(default_factory=list)
    nargs: int | Literal["?", "*", "+"] | None = None
    const: Any = None
    type: str | None = None
    choices: list[Any] | None = None
    default: Any = None
    action: str | None = None
    deprecated: bool | None = None
    only: Literal["serve", "module"] | None = None


class _Release(_Strict):
    """A release that the package's table lacks, by what it has not in common with another one."""

    like: str | None = None
    removed: list[str] = Field(default_factory=list)
    options: list[_Option] = Field(default_factory=list)


class _Releases(_Strict):
    images: dict[str, str] = Field(default_factory=dict)
    """Pattern of an image → the vLLM release in it."""
    known: dict[str, _Release] = Field(default_factory=dict)


class _Spec(_Strict):
    order: int = 0
    releases: _Releases = Field(default_factory=_Releases)
    rules: dict[str, dict[str, Any]] = Field(default_factory=dict)
    enforce: _Enforce = Field(default_factory=_Enforce)
    mutate: _Mutate = Field(default_factory=_Mutate)
    assume: _Assume = Field(default_factory=_Assume)
    trust_mutation: bool | None = None


class _Document(_Strict):
    api_version: Literal["podfit.dev/v1alpha1"]
    kind: Literal["Policy"]
    metadata: _Metadata
    spec: _Spec


class _Setting(_Strict):
    """The two words that every rule has beside its own parameters."""

    mode: Mode | None = None
    fix: Fix | None = None


def parameters(rule: type[Rule]) -> type[BaseModel]:
    """The rule's parameters as a policy spells them (camelCase), with their bounds."""
    hints = get_type_hints(rule)
    found: dict[str, Any] = {
        one.name: (hints[one.name], Field(default=one.default, **one.metadata)) for one in fields(rule)
    }
    return create_model(rule.__name__, __base__=_Strict, **found)


def schema() -> dict[str, Any]:
    """The JSON Schema of a policy, every rule with its parameters: for editors and for the chart's values."""
    whole = _Document.model_json_schema(by_alias=True)
    rules: dict[str, Any] = {}
    for rule_id, rule in all_rules().items():
        own = parameters(rule).model_json_schema(by_alias=True).get("properties", {})
        common = _Setting.model_json_schema(by_alias=True)["properties"]
        rules[rule_id] = {
            "type": "object",
            "description": rule.title(),
            "properties": {**common, **own},
            "additionalProperties": False,
        }
    whole["$defs"]["_Spec"]["properties"]["rules"] = {
        "type": "object",
        "properties": rules,
        "additionalProperties": False,
    }
    return whole


_Rules = dict[str, tuple[dict[str, Any], _Setting]]
"""Rule id → its parameters as given, and its mode and fix."""
_Found = tuple[_Document, _Rules]
_KNOWN = FieldPath(("spec", "releases", "known"))


def load(texts: Iterable[tuple[str, str]], policy: Policy) -> Policy:
    """The policies in `texts` over `policy`; see `webhook.policy.load`."""
    problems: list[str] = []
    documents: list[tuple[_Found, str]] = []
    for name, text in texts:
        read = manifest.read(text, name)
        problems += [f"{name}:{error.line or 1}: {error.message}" for error in read.errors]
        if not read.errors and not read.documents:
            problems.append(f"{name}:1: no policy in it: expected apiVersion {API_VERSION}, kind Policy")
        for document in read.documents:
            found, wrong = _document(document.object)
            problems += [f"{name}:{document.line_of(path)}: {path or 'policy'}: {message}" for path, message in wrong]
            problems += [f"{name}:{note.line}: {note.message}" for note in document.notes]
            if found:
                documents.append((found, f"{name}:{document.line_of(_KNOWN)}: {_KNOWN}"))
    if problems:
        raise PolicyError(problems)
    for (said, rules), place in sorted(documents, key=lambda one: (one[0][0].spec.order, one[0][0].metadata.name)):
        try:
            policy = replace(_apply(policy, said, rules), releases=_taught(policy.releases, said.spec.releases))
        except TaughtError as error:
            raise PolicyError([f"{place}: {error}"]) from None
    return policy


def _document(obj: Mapping[str, Any]) -> tuple[_Found | None, list[tuple[FieldPath, str]]]:
    """One policy document and what is wrong with it."""
    rules: _Rules = {}
    wrong: list[tuple[FieldPath, str]] = []
    known = all_rules()
    document = None
    try:
        document = _Document.model_validate(obj)
    except ValidationError as error:
        wrong += _problems(error, FieldPath())
    if document is not None:
        wrong += _wrong_releases(document.spec.releases)
    listed = FieldPath(("spec", "rules")).get(obj)
    for rule_id, said in listed.items() if isinstance(listed, Mapping) else ():
        if not isinstance(said, Mapping):
            continue  # said above
        place = FieldPath(("spec", "rules", rule_id))
        if rule_id not in known:
            wrong.append((place, f"{rule_id!r} is no rule{_nearest(rule_id, known)}"))
            continue
        common = {key: value for key, value in said.items() if key in ("mode", "fix")}
        own = {key: value for key, value in said.items() if key not in common}
        try:
            setting = _Setting.model_validate(common)
            parameters(known[rule_id]).model_validate(own)
        except ValidationError as error:
            wrong += _problems(error, place, ("mode", "fix", *_names(parameters(known[rule_id]))))
        else:
            rules[rule_id] = (own, setting)
    return (document, rules) if document is not None and not wrong else None, wrong


def _wrong_releases(said: _Releases) -> list[tuple[FieldPath, str]]:
    place = FieldPath(("spec", "releases"))
    wrong = [
        (place.join("images", pattern), f"{text!r} is no vLLM release such as 0.27.1")
        for pattern, text in said.images.items()
        if release.parse(text) is None
    ]
    for name, one in said.known.items():
        wrong += [
            (place.join("known", name, "options", index), "an option needs flags, or a dest")
            for index, option in enumerate(one.options)
            if not option.flags and not option.dest
        ]
    return wrong


def _taught(releases: Releases, said: _Releases) -> Releases:
    """What is known of releases, with what a document says on top; raises TaughtError."""
    table = releases.table
    for name, one in said.known.items():
        rows = {
            option.dest or _dest(option.flags): option.model_dump(exclude={"dest"}, exclude_defaults=True)
            for option in one.options
        }
        table = taught.teach(table, name, one.like, one.removed, rows)
    images = tuple((p, found) for p, text in said.images.items() if (found := release.parse(text)) is not None)
    return Releases((*images, *releases.images), table)


def _dest(flags: Iterable[str]) -> str:
    """argparse's: the first long flag, with underscores."""
    long = [flag for flag in flags if flag.startswith("--")] or list(flags)
    return long[0].lstrip("-").replace("-", "_")


def _names(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _nearest(word: str, words: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, list(words), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


_ALLOWED = {
    "": ("apiVersion", "kind", "metadata", "spec"),
    "metadata": ("name", "labels", "annotations"),
    "spec": tuple(_names(_Spec)),
    "spec.enforce": tuple(_names(_Enforce)),
    "spec.mutate": tuple(_names(_Mutate)),
    "spec.assume": tuple(_names(_Assume)),
    "spec.releases": tuple(_names(_Releases)),
}


def _problems(error: ValidationError, at: FieldPath, allowed: Iterable[str] = ()) -> list[tuple[FieldPath, str]]:
    """pydantic's errors as (path, message) with the words allowed there."""
    out = []
    for problem in error.errors():
        place = at.join(*problem["loc"])
        if problem["type"] == "extra_forbidden":
            word, siblings = str(place.parts[-1]), list(allowed) or _ALLOWED.get(str(FieldPath(place.parts[:-1])), ())
            message = f"unknown field{_nearest(word, siblings)}"
            if siblings:
                message += f" (allowed: {', '.join(siblings)})"
        elif problem["type"] == "missing":
            message = "required, but absent"
        else:
            message = f"{problem['msg'][:1].lower()}{problem['msg'][1:]}, got {problem['input']!r}"
            if place.parts[-1:] == ("mode",) and problem["input"] is False:
                message += ": YAML reads an unquoted `off` as false; the word is `ignore`"
        out.append((place, message))
    return out


def _apply(policy: Policy, document: _Document, rules: _Rules) -> Policy:
    settings = dict(policy.settings)
    for rule_id, (own, setting) in rules.items():
        before = settings[rule_id]
        said = parameters(type(before.rule)).model_validate(own).model_dump(exclude_unset=True)
        settings[rule_id] = Setting(
            rule=replace(before.rule, **said),
            mode=setting.mode or before.mode,
            fix=before.fix if setting.fix is None else setting.fix,
        )
    spec = document.spec
    return replace(
        policy,
        name=document.metadata.name,
        settings=settings,
        assume=Assume(
            gpu=gpu.parse(spec.assume.gpu) if spec.assume.gpu else policy.assume.gpu,
            nodes=spec.assume.nodes or policy.assume.nodes,
            download_rate=quantity.try_parse(spec.assume.download_rate) or policy.assume.download_rate,
        ),
        enforce=Enforce(spec.enforce.owned_pods or policy.enforce.owned_pods),
        mutate_workloads=policy.mutate_workloads if spec.mutate.workloads is None else spec.mutate.workloads,
        trust_mutation=policy.trust_mutation if spec.trust_mutation is None else spec.trust_mutation,
    )
