"""Policies: which rules, in which mode, with what parameters, for whom.

A `Layer` is one policy, a `Policy` all of them in their order, `Terms` what applies to one object.
`Policy.of(Subject)` applies the layers that select the object to the built-in terms, and remembers the result per
combination of layers. `document` reads Kubernetes-shaped YAML, and is imported (with pydantic) only if there is any.

- A match has three results. If it is unknown (an AdmissionReview has no labels of the namespace),
  `Layer.perhaps_over` takes the softer value of both for each term. A property test compares it with both results.
- An exception belongs to a policy and expires; an annotation belongs to the author, if the policy allows it. Both
  turn a finding into an audit finding. Rules read no clock: the edge sets the time (`Policy.at`), and a policy whose
  exceptions have expired has another version, so no remembered decision outlives them.
- Files and Policy objects have one shape and one check. Unknown fields and YAML that parsers read differently are
  errors. The CRD keeps unknown fields instead of pruning them, so that a typo is reported.
- A broken change keeps the last valid state of that file or object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property, reduce

from podfit.evaluation.policy.layer import Layer, PolicyError, PolicyException, Setting, Terms
from podfit.evaluation.policy.match import Match, Subject
from podfit.kube.path import FieldPath
from podfit.rules import all_rules
from podfit.vllm.args import Releases, taught

__all__ = ["Layer", "Match", "Policy", "PolicyError", "Setting", "Subject", "Terms", "builtin", "is_schema", "load",
           "of_layers", "what_if"]  # fmt: skip

_REMEMBERED = 1024
"""Combinations of policies whose terms are kept. A cluster has a handful."""


@dataclass
class _Memo:
    """Cached values of one list of policies, which do not depend on the time."""

    terms: dict[tuple[int | None, tuple[bool | None, ...]], Terms] = field(default_factory=dict)
    version: str = ""


@dataclass(frozen=True)
class Policy:
    """All policies, in the order in which they apply."""

    base: Terms
    """The terms before any policy with a `match`: the built-in terms and the policies for all objects."""
    layers: tuple[Layer, ...] = ()
    """The policies that come after it."""
    shadows: tuple[tuple[int, Layer], ...] = ()
    """Policies that are only counted, each with the number of `layers` that come before it."""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further kinds, as `workload.find` takes them."""
    releases: Releases = field(default_factory=Releases)
    """vLLM releases: which images hold them, and those that the package's table lacks."""
    now: datetime | None = None
    """The time by which exceptions expire; the edge reads the clock and sets it with `at`."""
    everything: tuple[Layer, ...] = field(default=(), compare=False, repr=False)
    """Every policy as it was given, shadows too: for explanations."""
    _memo: _Memo = field(default_factory=_Memo, init=False, compare=False, repr=False)

    def at(self, now: datetime) -> Policy:
        """Return the policies at this time (with a time zone), by which exceptions expire."""
        other = replace(self, now=now)
        object.__setattr__(other, "_memo", self._memo)
        return other

    def audited(self) -> Policy:
        """Return the policies with nothing enforced: no finding is more than audited, and nothing is patched."""
        return replace(self, layers=(*self.layers, Layer("nothing is enforced", at_most="audit")))

    def of(self, subject: Subject) -> Terms:
        """The terms that apply to an object."""
        return self._apply_layers(self.layers, subject)

    def shadowed(self, subject: Subject) -> Iterator[tuple[str, Terms]]:
        """(name, terms) of each policy that is only counted: the terms that would apply with it."""
        for number, (place, shadow) in enumerate(self.shadows):
            if shadow.match.selects(subject) is True:
                yield (
                    shadow.name,
                    self._apply_layers((*self.layers[:place], shadow, *self.layers[place:]), subject, number),
                )

    def _apply_layers(self, layers: tuple[Layer, ...], subject: Subject, shadow: int | None = None) -> Terms:
        """The terms that apply with these policies; `shadow`: the number of the one among them that is only counted."""
        answers = tuple(layer.match.selects(subject) for layer in layers)
        remembered = self._memo.terms
        terms = remembered.get((shadow, answers))
        if terms is None:
            if len(remembered) >= _REMEMBERED:
                remembered.clear()
            terms = reduce(_apply_layer, zip(layers, answers, strict=True), self.base).capped()
            remembered[shadow, answers] = terms
        return terms

    @property
    def holding(self) -> tuple[PolicyException, ...]:
        """The exceptions that hold at the policy's time, of all policies."""
        return tuple(
            exception for layer in self.everything for exception in layer.exceptions if exception.holds(self.now)
        )

    @cached_property
    def expired(self) -> tuple[PolicyException, ...]:
        """The exceptions that no longer hold, of all policies."""
        given = (exception for layer in self.everything for exception in layer.exceptions)
        return tuple(exception for exception in given if self.now is not None and not exception.holds(self.now))

    @cached_property
    def version(self) -> str:
        """A short hash of everything the policies say, for audit annotations and metrics."""
        if not self._memo.version:
            self._memo.version = self._content_hash()
        ended = len(self.expired)  # a remembered decision that an exception made must not outlive it
        return f"{self._memo.version}-{ended}" if ended else self._memo.version

    def _content_hash(self) -> str:
        """A short hash of everything that the policy says."""
        import hashlib  # here: `podfit check` asks for no version

        settings = [
            (rule_id, setting.mode, str(setting.fix), asdict(setting.rule))
            for rule_id, setting in sorted(self.base.settings.items())
        ]
        rest = (replace(self.base, settings={}), self.layers, self.shadows, self.kinds, self.releases.images)
        known = [known_release for layer in self.everything if not layer.shadow for known_release in layer.known]
        items = (settings, *rest, known)
        return hashlib.sha256(repr(items).encode()).hexdigest()[:12]


def _apply_layer(terms: Terms, chosen: tuple[Layer, bool | None]) -> Terms:
    """The terms with a layer over them; where it is unknown whether it selects the object, the softer of both."""
    layer, selected = chosen
    if selected is None:
        return layer.perhaps_over(terms)
    return layer.over(terms) if selected else terms


@cache
def builtin() -> Policy:
    """The policy without any file: every rule with its own defaults."""
    return Policy(Terms({rule_id: Setting(rule(), rule.mode, rule.fix) for rule_id, rule in all_rules().items()}))


def of_layers(layers: Iterable[Layer]) -> Policy:
    """The policies over the built-in one. They apply in ascending order, then by name; a later one overrides an
    earlier one rule by rule, parameter by parameter. Raises PolicyError where they do not go together."""
    given = sorted(layers, key=lambda layer: (layer.order, layer.name))
    base, active, shadows = builtin().base, list[Layer](), list[tuple[int, Layer]]()
    kinds, releases = dict[str, tuple[str, ...]](), Releases()
    for layer in given:
        if layer.shadow:
            shadows.append((len(active), layer))
            continue
        kinds |= layer.kinds
        releases = _with_known_releases(releases, layer)
        if layer.match.everything and not active and not shadows:  # nothing comes before it that may select or not
            base = layer.over(base)
        else:
            active.append(layer)
    return Policy(base, tuple(active), tuple(shadows), kinds, releases, everything=tuple(given))


def what_if(policy: Policy, changes: Iterable[Layer]) -> Policy:
    """The policies if they enforced, with `changes` over all of them, also if those are shadows.

    A limit of a change applies, and so does `enforce.mode: ignore`: such objects are not part of a rollout."""
    kept = [layer if layer.at_most == "ignore" else replace(layer, at_most=None) for layer in policy.everything]
    last = max((layer.order for layer in kept), default=0)
    over = sorted(changes, key=lambda layer: (layer.order, layer.name))
    placed = [replace(layer, order=last + number, shadow=False) for number, layer in enumerate(over, 1)]
    changed = of_layers([*kept, *placed])
    return changed if policy.now is None else changed.at(policy.now)


def _with_known_releases(releases: Releases, layer: Layer) -> Releases:
    """The known releases, with those and the images that a policy adds; raises PolicyError if the table rejects one."""
    lessons = list(releases.make_table.lessons) if isinstance(releases.make_table, taught.TaughtTable) else []
    table = releases.table
    for known_release in layer.known:
        path = FieldPath(("spec", "releases", "known", known_release.name))
        try:
            table = taught.teach_release(table, *known_release)
        except taught.TaughtError as error:
            named = (  # the places of the words that the error quotes
                path.join("removed", index)
                for index, word in enumerate(known_release.removed)
                if repr(word) in str(error)
            )
            path = next(named, path / "like" if repr(known_release.like) in str(error) else path)
            raise PolicyError([f"{layer.place(*path.parts)}: {path}: {error}"]) from None
        lessons.append(known_release)
    images = (*layer.images, *releases.images)
    return Releases(images, taught.TaughtTable(lessons)) if lessons else Releases(images)


def load(texts: Iterable[tuple[str, str]]) -> Policy:
    """The policies in `texts` (name of the file, its text); raises PolicyError with every problem of every file."""
    from podfit.evaluation.policy import document

    return of_layers(document.read(texts))


def is_schema(text: str) -> bool:
    """Return whether a file is a JSON Schema (`schema.json`, which editors read next to the policies): JSON with a
    schema's keys and without a policy's. False for a broken file, which is reported as a policy."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(value, dict)
        and not value.keys().isdisjoint({"$schema", "properties"})
        and value.keys().isdisjoint({"apiVersion", "kind", "spec"})
    )
