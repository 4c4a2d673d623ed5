"""The shape of a policy, once: pydantic checks files and custom resources with it, the JSON Schema and the CRD come
from it, and `kubectl explain` shows its words."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model, model_validator

from podfit.evaluation.policy import records, words
from podfit.evaluation.policy.records import Strict
from podfit.kube import selector
from podfit.rules import all_rules
from podfit.rules.rule import Mode

API_VERSION = "podfit.dev/v1alpha1"


class LabelRequirement(Strict):
    """A condition on one label."""

    key: words.LabelKey = Field(description="The label's key.")
    operator: selector.Operator = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: list[words.LabelValue] = Field(
        default_factory=list, description="For In and NotIn: at least one value. Not for Exists and DoesNotExist."
    )


class LabelSelector(Strict):
    """A label selector as everywhere in Kubernetes: all conditions must hold, an empty one selects everything."""

    match_labels: dict[words.LabelKey, words.LabelValue] = Field(
        default_factory=dict, description="Labels that must be there with these values."
    )
    match_expressions: list[LabelRequirement] = Field(default_factory=list, description="Further conditions.")


class MatchShape(Strict):
    """The objects that a policy selects: all given conditions must apply; without any, it selects every object."""

    namespaces: list[words.Namespace] | None = Field(
        default=None, min_length=1, description="Names of namespaces, * and ? as wildcards; one of them."
    )
    excluded_namespaces: list[words.Namespace] | None = Field(
        default=None, min_length=1, description="Names of namespaces, * and ? as wildcards; none of them."
    )
    namespace_selector: LabelSelector | None = Field(default=None, description="Labels of the namespace.")
    object_selector: LabelSelector | None = Field(
        default=None, description="Labels of the object itself, not those of its Pod template."
    )
    kinds: list[words.Kind] | None = Field(
        default=None,
        min_length=1,
        description="Kinds, such as Deployment, or with the API group LeaderWorkerSet.leaderworkerset.x-k8s.io.",
    )


class ExceptionShape(Strict):
    """Findings that are accepted for some objects, for a while: they are audited instead."""

    rules: list[words.RuleId] = Field(min_length=1, description='Rule ids; "*" is every rule.')
    match: MatchShape = Field(default_factory=MatchShape, description="Which of the policy's objects.")
    reason: words.Text = Field(description="Why it is accepted.")
    owner: words.Text = Field(description="Who answers for it.")
    expires: words.Expiry = Field(
        description="The last day (2026-12-31, UTC) or the moment (2026-12-31T18:00:00Z) until which it holds."
    )


class OptionShape(Strict):
    """One option of vLLM's parser, as argparse's add_argument has it."""

    dest: str | None = Field(default=None, description="Default: the first long flag, with underscores.")
    flags: list[str] = Field(default_factory=list, description="Spellings, such as --max-model-len.")
    negative: list[str] = Field(default_factory=list, description="Spellings that switch it off.")
    nargs: int | Literal["?", "*", "+"] | None = Field(default=None, description="How many words it takes.")
    const: Any = Field(default=None, description="The value where the flag stands alone.")
    type: str | None = Field(default=None, description="int, float, str, json, human_int, optional[int] …")
    choices: list[Any] | None = Field(default=None, description="The values allowed.")
    default: Any = Field(default=None, description="The value where it is not given.")
    action: str | None = Field(default=None, description="argparse's action.")
    deprecated: bool | None = Field(default=None, description="It is deprecated.")
    only: Literal["serve", "module"] | None = Field(default=None, description="One entry point alone has it.")

    @model_validator(mode="after")
    def _is_named(self) -> OptionShape:
        """Raises ValueError for an option without flags and dest."""
        if not self.flags and not self.dest:
            raise ValueError("an option needs flags, or a dest")
        return self


class KnownReleaseShape(Strict):
    """A release that the package's table lacks, by what it has not in common with another one."""

    like: words.Version | None = Field(default=None, description="The release that it resembles; default: the newest.")
    removed: list[str] = Field(default_factory=list, description="Flags or dests that are gone.")
    options: list[OptionShape] = Field(default_factory=list, description="Options that are new or changed.")


class ReleasesShape(Strict):
    """Facts on vLLM's releases beyond the package's table; they apply to every object, whatever `match` selects."""

    images: dict[str, words.Version] = Field(
        default_factory=dict, description="Image, with * and ? as wildcards, to the vLLM release in it."
    )
    known: dict[words.Version, KnownReleaseShape] = Field(
        default_factory=dict, description="Releases that the package's table lacks."
    )


class AssumeShape(Strict):
    """Assumptions about unknown values. They may inform; no denial is based on them."""

    gpu: words.Accelerator | None = Field(
        default=None, description="The GPU of a Pod that names none: l4, h100:8, NVIDIA-A100-SXM4-80GB."
    )
    download_bandwidth: words.Rate | None = Field(
        default=None, description="Bytes a second at which weights come from a hub: 500M. Default: usual rates."
    )
    disk_bandwidth: words.Rate | None = Field(
        default=None, description="Bytes a second at which weights are read from a volume: 2G. Default: usual rates."
    )
    free_gpu_memory: float | None = Field(
        default=None, gt=0, le=1, description="Share of a GPU's memory that is free when vLLM starts. Default: unknown."
    )
    nodes: Literal["open", "closed"] | None = Field(
        default=None, description="closed: no node will be added, so the labels of nodes may deny. Default: open."
    )
    registries: list[words.Repository] | None = Field(
        default=None, description="Repositories whose images are vLLM's own builds under another name."
    )
    gpus_without_request: bool | None = Field(
        default=None,
        description="true: the nodes' runtime gives every container their GPUs; silences gpu-missing. Default: false.",
    )
    extended_resource_toleration: bool | None = Field(
        default=None,
        description="The cluster's admission adds a toleration for the taint of each resource that a Pod requests. "
        "Default: true, as in most clouds. false: no-gpu-toleration counts these taints, too.",
    )
    random_user: bool | None = Field(
        default=None,
        description="true: a container without runAsUser runs as a user of its namespace (OpenShift). Default: false.",
    )


class EnforceShape(Strict):
    """How strong a decision may be, and whom it may hit."""

    mode: Mode | None = Field(
        default=None,
        description="No finding has a stronger mode than this: warn and audit make a trial of the whole policy. "
        "With audit nothing is patched either. Default: deny.",
    )
    owned_pods: Literal["warn", "deny"] | None = Field(
        default=None, description="A Pod that a controller made. Default: warn, since its workload was checked."
    )


class MutateShape(Strict):
    """The changes that the mutating webhook may make."""

    workloads: bool | None = Field(
        default=None, description="Patch workloads, too, not only Pods. Default: false; GitOps tools would see it."
    )


class SpecShape(Strict):
    """The content of a policy. Unset fields keep the values of earlier policies, or podfit's defaults."""

    order: int = Field(
        default=0,
        ge=-(2**31),
        le=2**31 - 1,
        description="Policies apply in ascending order, then by name; a later one overrides an earlier one.",
    )
    shadow: bool = Field(default=False, description="Evaluate it next to the others, and only count its effect.")
    match: MatchShape = Field(default_factory=MatchShape, description="Which objects it is for.")
    rules: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Rule id to its mode, fix and parameters."
    )
    assume: AssumeShape = Field(
        default_factory=AssumeShape,
        description="What to assume where nothing is known; it informs, and denies nothing.",
    )
    exceptions: list[ExceptionShape] = Field(
        default_factory=list, description="Findings that are accepted for some objects, for a while."
    )
    allow_ignore: list[words.RuleId] | None = Field(
        default=None,
        description='Rules that an author may silence with an annotation podfit.dev/ignore.<rule>: "why"; '
        '"*" is every rule. Default: none.',
    )
    enforce: EnforceShape = Field(
        default_factory=EnforceShape, description="How strong a decision may be, and whom it may hit."
    )
    mutate: MutateShape = Field(
        default_factory=MutateShape, description="The changes that the mutating webhook may make."
    )
    trust_mutation: bool | None = Field(
        default=None,
        description="Do not deny a workload whose Pods the mutating webhook would repair. Default: false.",
    )
    trust_facts: bool | None = Field(
        default=None,
        description="Ignored: facts are part of podfit. podfit 0.4 will not accept this field.",
    )
    releases: ReleasesShape = Field(
        default_factory=ReleasesShape, description="What is known of vLLM's releases beyond the package's table."
    )
    kinds: dict[
        words.OwnKind,
        Annotated[list[words.Pods], Field(min_length=1)],
    ] = Field(
        default_factory=dict,
        description="Further kinds, Kind.group, with the paths of their PodSpecs; * stands for every item.",
    )


WRITTEN = ("name", "labels", "annotations")
"""Fields of metadata that authors write."""


class Metadata(Strict):
    """Kubernetes' own; what the API server writes into it is passed over."""

    name: words.Name
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    uid: Any = None
    resource_version: Any = None
    generation: Any = None
    creation_timestamp: Any = None
    deletion_timestamp: Any = None
    deletion_grace_period_seconds: Any = None
    self_link: Any = None
    managed_fields: Any = None
    owner_references: Any = None
    finalizers: Any = None


class DocumentShape(Strict):
    """A policy of podfit: which rules about vLLM Pods, in which mode, with what parameters, for whom."""

    api_version: Literal["podfit.dev/v1alpha1"]
    kind: Literal["Policy"]
    metadata: Metadata
    spec: SpecShape
    status: Any = None


class _RuleWords(Strict):
    """The two words that every rule has next to its own parameters."""

    mode: Mode | None = Field(default=None, description="deny, warn, audit or ignore.")
    fix: words.Repaired | None = Field(
        default=None,
        description="Who applies the rule's fix: the webhook (true), no program (false), the webhook if the finding is "
        'certain ("certain"), only `podfit fix` ("manual").',
    )


@cache
def rule_shape(rule_id: str) -> type[BaseModel]:
    """The pydantic model of a rule in a policy: mode, fix and its parameters (camelCase), with their bounds."""
    rule = all_rules()[rule_id]
    return create_model(rule.__name__, __base__=_RuleWords, __doc__=f"{rule.title()}.", **records.shape_fields(rule))


def field_names(model: type[BaseModel]) -> list[str]:
    """A model's fields as a policy spells them."""
    return [info.alias or name for name, info in model.model_fields.items()]


def schema() -> dict[str, Any]:
    """The JSON Schema of a policy, every rule with its parameters: for editors and for the chart's values."""
    entries = DocumentShape.model_json_schema(by_alias=True)
    del entries["properties"]["status"]  # what people write has none, nor what the API server adds to metadata
    metadata = entries["$defs"]["Metadata"]
    metadata["properties"] = {name: metadata["properties"][name] for name in WRITTEN}
    rules: dict[str, Any] = {}
    for rule_id, rule in all_rules().items():
        rule_schema = rule_shape(rule_id).model_json_schema(by_alias=True)
        entries["$defs"] |= rule_schema.get("$defs", {})
        rules[rule_id] = {
            "type": "object",
            "description": rule.title(),
            "properties": rule_schema["properties"],
            "additionalProperties": False,
        }
    value = entries["$defs"]["SpecShape"]["properties"]
    value["rules"] = {
        "type": "object",
        "description": value["rules"]["description"],
        "properties": rules,
        "additionalProperties": False,
    }
    return entries
