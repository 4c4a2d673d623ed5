"""Table of the doubts: every reason why a finding has less consequence than its rule's mode, in order.

`DOUBTS` is for each finding alone: facts that are not certain, the object, the policy, and exemptions. Then come the
`steps` over all findings of a container. `DOUBTS_OF_UPDATE` come last, since they read the old object: only a finding
that is still denied needs that. Also, a finding that yields to another must not come back because the other one was
there before the update.
"""

from __future__ import annotations

from podfit.evaluation.lint.consequence import Context, Doubt
from podfit.evaluation.lint.exemptions import exempting_annotation, valid_exception
from podfit.evaluation.lint.results import printable
from podfit.evaluation.lint.update import finding_keys
from podfit.rules.engine import Engine
from podfit.rules.rule import FACT_GETTERS, FACTS, Finding
from podfit.vllm.facts import Fact
from podfit.vllm.release import newer_than_read


def not_certain(finding: Finding, engine: Engine, context: Context) -> str | None:
    """Only a failure that happens each time is denied."""
    if finding.certainty == "certain":
        return None
    why = finding.uncertain or context.rule.never_denies
    text = f"{finding.certainty}, not certain"
    return f"{text}: {why}" if why else text


def placeholder(finding: Finding, engine: Engine, context: Context) -> str | None:
    """A file may change before the API server gets it."""
    return finding.fillable if context.place == "check" else None


def parser_unknown(finding: Finding, engine: Engine, context: Context) -> str | None:
    """A patch release may add flags and values."""
    if not context.rule.of_parser or engine.args.parser_known:
        return None
    return newer_than_read(engine.release) or f"vLLM {engine.release} may take more flags and values"


def release_not_read(finding: Finding, engine: Engine, context: Context) -> str | None:
    """The release is newer than podfit's facts, so its behavior is unknown; a parser that a policy describes is
    known."""
    return newer_than_read(engine.release) if _is_of_vllm(finding, context) and not context.rule.of_parser else None


def release_guessed(finding: Finding, engine: Engine, context: Context) -> str | None:
    """A part of an image's name may be another version number."""
    if not _is_of_vllm(finding, context) or not engine.informs:
        return None
    return f"vLLM {engine.release} is read from a part of the image's name"


def _is_of_vllm(finding: Finding, context: Context) -> bool:
    """Return whether vLLM decides that the finding's event happens."""
    return context.rule.of_vllm if finding.of_vllm is None else finding.of_vllm


def parameter_without_value(finding: Finding, engine: Engine, __: Context) -> str | None:
    """A template's parameter may get any value when its object is made."""
    unfilled = engine.workload.unfilled
    return f"the parameter {unfilled[0]} has no value here" if unfilled else None


def template_not_read(finding: Finding, engine: Engine, __: Context) -> str | None:
    """Something that podfit cannot read changes the Pod."""
    return engine.workload.unread


def parameter_default(finding: Finding, engine: Engine, context: Context) -> str | None:
    """A template's parameter may get another value when its object is made."""
    defaults = engine.workload.defaults
    if defaults and _is_about_arguments(finding, engine, context):
        defaults = tuple(name for name in defaults if name not in engine.workload.aside)
    return f"the parameter {defaults[0]} has a default here, which may be replaced" if defaults else None


def _is_about_arguments(finding: Finding, engine: Engine, context: Context) -> bool:
    """Return whether the finding is about vLLM's arguments, alone or with model and GPU, and about nothing else. False
    for a container that podfit made up: its command is from other fields."""
    paths = [engine.at(name).parts for name in ("command", "args")]
    is_in_command = any(finding.path.parts[: len(path)] == path for path in paths)
    return is_in_command and context.rule.plane in ("config", "gpu") and not engine.container.synthetic


def failure_survived(finding: Finding, engine: Engine, context: Context) -> str | None:
    """The container goes on after vLLM has failed."""
    return None if context.rule.forbids else engine.command.survived


def command_guessed(finding: Finding, engine: Engine, __: Context) -> str | None:
    """The program may not be vLLM."""
    return f"that this is vLLM is a guess: {engine.command.guessed}" if engine.command.guessed else None


def arguments_unseen(finding: Finding, engine: Engine, context: Context) -> str | None:
    """Another argument may change what the seen ones do."""
    has_unseen = bool(engine.args.open) or not engine.command.complete
    if context.rule.forbids or not has_unseen:
        return None
    text = "vLLM may get more arguments than can be seen here"
    return f"{text}: {engine.args.open}" if engine.args.open else text


def computation_doubtful(finding: Finding, engine: Engine, context: Context) -> str | None:
    """The planner does not know all that its arithmetic needs. Without the facts, the arguments alone count."""
    rests_on = _rests_on(finding, context)
    if not any(name.startswith("plan.") for name in (*context.rule.needs, *rests_on)):
        return None
    return engine.doubt if rests_on else engine.unseen


def several_pods(finding: Finding, engine: Engine, context: Context) -> str | None:
    """Host memory is counted for the processes of one Pod."""
    if "plan.host" not in context.rule.needs or not engine.spans_pods:
        return None
    return "the engine spans several Pods, and which of its processes run in this one is unknown"


def fact_informs(finding: Finding, engine: Engine, context: Context) -> str | None:
    """A source of a fact may be wrong (`podfit.vllm.facts`)."""
    facts = [FACT_GETTERS[fact](engine) for name in _rests_on(finding, context) for fact in FACTS[name]]
    sources = [fact.source for fact in facts if isinstance(fact, Fact) and not fact.may_deny]
    return f"based on {_basis(sources[0])}" if sources else None


def _basis(source: str) -> str:
    """The source of a fact, and why it may be wrong, for people.

    `source`: "path: MODEL, from PLACE" or "name: TEXT" for a model that was recognized by its path or its name. Else a
    text for people, to which "; doubtful: REASON" may be added."""
    kind, _, text = source.partition(": ")
    if kind == "path":
        _, _, place = text.rpartition(", from ") if ", from " in text else ("", "", "the end of the model's path")
        return f"{place}, which may be any model's"
    if kind == "name":
        return f"the model's name, which may be wrong: {text}"
    if "; doubtful: " in source:
        _, _, reason = source.partition("; doubtful: ")
        return f"a catalog entry that is in doubt: {reason}"
    return f"{source}, which may be wrong"


def _rests_on(finding: Finding, context: Context) -> tuple[str, ...]:
    """Return the names of the facts that the finding is based on."""
    return context.rule.needs if finding.rests_on is None else finding.rests_on


def no_replicas(finding: Finding, engine: Engine, context: Context) -> str | None:
    """An object that is scaled to zero must stay editable."""
    if engine.workload.replicas != 0 or context.rule.forbids:
        return None
    return "replicas: 0: nothing starts now, and the next scale-up would"


def owned(finding: Finding, engine: Engine, context: Context) -> str | None:
    """A node drain must not become an outage."""
    if context.place != "admission" or not engine.workload.owned or context.terms.owned_pods == "deny":
        return None
    return "a controller made this object: what it would be denied for is denied at its owner"


def repaired_by_webhook(finding: Finding, engine: Engine, context: Context) -> str | None:
    """The policy trusts the mutating webhook."""
    is_repaired = context.terms.trust_mutation and context.webhook_repairs(finding)
    return "the mutating webhook repairs it" if is_repaired else None


def excepted(finding: Finding, __: Engine, context: Context) -> str | None:
    """An admin accepts the rule's findings for some objects, for a while."""
    exception = valid_exception(context)
    if exception is None:
        return None
    owner = f"{exception.owner} in policy {exception.policy}"
    return f"excepted until {exception.until} by {owner}: {exception.reason}"


def ignored(finding: Finding, engine: Engine, context: Context) -> str | None:
    """An author accepts the rule's findings, if the policy allows it."""
    reason = exempting_annotation(engine, context)
    return None if reason is None else f"ignored by its author: {reason}"


def had_it_before(finding: Finding, engine: Engine, context: Context) -> str | None:
    """An update is denied only for what it introduces."""
    message = printable(finding.message, context.secrets)
    keys = finding_keys(context.rule.id(), finding, message, engine)
    return None if keys.isdisjoint(context.denied_before()) else "the object had this before the update"


def former_revision(finding: Finding, __: Engine, context: Context) -> str | None:
    """A rollback always passes."""
    revision = context.update.revision if context.update else None
    return f"the update returns to {revision}, which ran before" if revision else None


def unknown_revision(finding: Finding, __: Engine, context: Context) -> str | None:
    """A rollback passes also if the snapshot is not complete."""
    keeper = context.update.unknown_revisions if context.update else None
    if not keeper:
        return None
    return f"the update may return to what ran before: not all {keeper} of the namespace can be known"


DOUBTS = (
    Doubt(
        name="not-certain",
        when="the failure is likely or possible, but does not happen each time",
        reason=not_certain,
    ),
    Doubt(
        name="placeholder",
        when="the file has a placeholder that a tool may fill before the API server gets it",
        reason=placeholder,
    ),
    Doubt(
        name="parser-unknown",
        when="the rule is about flags, and the options of this vLLM release were not read",
        reason=parser_unknown,
    ),
    Doubt(
        name="release-not-read",
        when="vLLM decides, and its release is newer than podfit's facts",
        reason=release_not_read,
    ),
    Doubt(
        name="release-guessed",
        when="vLLM decides, and its release is read from a part of the image's name",
        reason=release_guessed,
    ),
    Doubt(
        name="parameter-without-value",
        when="a parameter of the object's template has no value yet",
        reason=parameter_without_value,
    ),
    Doubt(
        name="template-not-read",
        when="something that podfit cannot read changes the Pod, such as a `podSpecPatch`",
        reason=template_not_read,
    ),
    Doubt(
        name="parameter-default",
        when="a parameter of the object's template has a default, which may be replaced",
        reason=parameter_default,
    ),
    Doubt(
        name="failure-survived",
        when="the container's script goes on after vLLM has failed",
        reason=failure_survived,
    ),
    Doubt(
        name="command-guessed",
        when="the container's program may not be vLLM",
        reason=command_guessed,
    ),
    Doubt(
        name="arguments-unseen",
        when="vLLM may get more arguments than the object shows",
        reason=arguments_unseen,
    ),
    Doubt(
        name="computation-doubtful",
        when="an argument or a layer that the planner does not know may change the memory",
        reason=computation_doubtful,
    ),
    Doubt(
        name="several-pods",
        when="the finding is about host memory, and the engine's processes run in several Pods",
        reason=several_pods,
    ),
    Doubt(
        name="fact-informs",
        when="the model or the GPU is from a source that may only inform",
        reason=fact_informs,
    ),
    Doubt(
        name="no-replicas",
        when="`replicas` is 0",
        reason=no_replicas,
    ),
    Doubt(
        name="owned",
        when="a controller made the object, and the policy does not set `enforce.ownedPods: deny`",
        reason=owned,
    ),
    Doubt(
        name="repaired-by-webhook",
        when="the policy sets `trustMutation`, and the mutating webhook repairs the finding",
        reason=repaired_by_webhook,
    ),
    Doubt(
        name="exception",
        when="a policy's exception covers the rule and the object, and has not ended",
        reason=excepted,
        mode_at_most="audit",
        stops_repair=True,
        exempts="exception",
    ),
    Doubt(
        name="annotation",
        when="the author's annotation `podfit.dev/ignore.RULE` has a reason, and the policy allows it",
        reason=ignored,
        mode_at_most="audit",
        stops_repair=True,
        exempts="annotation",
    ),
)
"""Doubts about one finding."""
DOUBTS_OF_UPDATE = (
    Doubt(
        name="had-it-before",
        when="the object was denied for the same before the update",
        reason=had_it_before,
    ),
    Doubt(
        name="former-revision",
        when="the update returns to a template that ran before",
        reason=former_revision,
    ),
    Doubt(
        name="unknown-revision",
        when="the update may return to a template that ran before: the former ones are not all known",
        reason=unknown_revision,
    ),
)
"""Doubts about a finding of an update, which are asked last."""
