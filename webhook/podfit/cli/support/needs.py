"""`podfit plan MODEL --context N --users N`: what does it take, and the manifest for it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace

from podfit import generate
from podfit.cli.support import edge, fleet, policies, terminal
from podfit.evaluation.lint import Result
from podfit.evaluation.policy import Policy
from podfit.report import model as as_model
from podfit.report import needs as as_needs
from podfit.report.command_line import judged_as
from podfit.report.needs import NeedsQuestion, Serving, Way
from podfit.vllm import gpu
from podfit.vllm.args import settings
from podfit.vllm.facts import Fact, Facts
from podfit.vllm.gpu import Accelerator
from podfit.vllm.memory import kv_specs, needs
from podfit.vllm.memory.needs import Stock
from podfit.vllm.model import Model, longest_max_model_len, nearest
from podfit.vllm.model.name import last_part
from podfit.vllm.release import newest_read


def run(args: argparse.Namespace, model: str, facts: Facts) -> int:
    """Prints the ways to serve them, best first, or the best one as a manifest; returns 0 also if there is none."""
    policy = policies.load(args.policy)
    version = args.vllm_version or str(newest_read())
    facts, having, notes = _having(args, facts)
    given = [
        word
        for flag in ("dtype", "quantization", "kv_cache_dtype")
        if (value := getattr(args, flag))
        for word in (f"--{flag.replace('_', '-')}", value)
    ]
    result = _base_result(model, given, version, facts, policy)
    base = result.engine
    if base.model is None:
        near = nearest(model)
        hint = f". Did you mean {' or '.join(near)}?" if near else ""
        raise edge.UnusableError(
            f"unknown model {model!r}{hint or '.'} For a model of your own, --model-config FILE gives its config.json"
        )
    _refuse_unknown(result)
    model, texts = _at_the_hub(model, base.model)
    notes += texts
    longest = longest_max_model_len(base.model.value, base.release)
    context = args.context or longest
    if context is None:
        _refuse_unsized(model, base.model)
        raise edge.UnusableError(f"how long {model}'s context is, is not known: --context TOKENS says it")
    if longest and context > longest:
        raise edge.UnusableError(f"--context {context}: the model's own limit is {longest:,} tokens")
    need = NeedsQuestion(base.model.value, context, args.users or 1, version, assumed=args.vllm_version is None)
    offers = needs.offers(
        base.args, base.model.value, context=context, users=args.users, stocks=having,
        gpus=facts.gpu.count if facts.gpu else None, env=base.command.env,
    )  # fmt: skip
    if not offers:
        _refuse_unsized(model, base.model)
    serving = Serving(
        model=model, arguments=tuple(given), context=args.context, users=args.users, version=version,
        namespace=args.namespace,
    )  # fmt: skip
    ways = as_needs.check_offers(offers, serving, facts, policy)
    for note in notes:
        edge.tell(f"note: {note}")
    if args.output:
        return _write(args.output, ways, need, facts.gpu)
    if args.format == "json":
        terminal.write(json.dumps(as_needs.tree(need, ways), indent=1, default=str))
    else:
        sizes = (facts.gpu.count,) if facts.gpu and facts.gpu.count else needs.GPU_COUNTS
        terminal.show(as_needs.table(need, ways, looked=[stock.product for stock in having], sizes=sizes))
    return 0


def _refuse_unknown(result: Result) -> None:
    """Raises UnusableError if a method or a type is named that a plugin would have to bring: it can't be planned. A
    name in whose place vLLM puts the checkpoint's own method can be (`marlin` for AWQ), as invalid-flag-value says."""
    base = result.engine
    method, dtype = base.args.quantization, base.args.given.get("kv_cache_dtype")
    refusal = settings.unknown_name("quantization", method, base.release) if method else None
    at, own = base.argument("quantization"), base.model is not None and base.model.value.quantization_config
    refused = any(finding.rule == "invalid-flag-value" and finding.finding.path == at for finding in result.findings)
    if refusal is not None and (refused or not own):
        raise edge.UnusableError(f"--quantization {method}: vLLM {base.release} has {', '.join(refusal.allowed)}")
    if isinstance(dtype, str) and not kv_specs.is_known(dtype):
        raise edge.UnusableError(f"--kv-cache-dtype {dtype}: podfit knows {', '.join(kv_specs.DTYPES)}")


def _refuse_unsized(model: str, fact: Fact[Model]) -> None:
    """Raises UnusableError if the known sizes of the model are not enough to choose GPUs."""
    known = as_model.tree(fact)
    sizes = {"the size of its weights": known["weights_bytes_loaded"], "its KV cache": known["kv_cache_known"]}
    missing = [what for what, size in sizes.items() if not size]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise edge.UnusableError(
            f"no GPUs can be chosen for {model}: {' and '.join(missing)} {are} not known ({fact.source}). "
            "Pass its config.json with --model-config FILE, or save it with `podfit models add` for --models DIR. "
            f"`podfit models show {model}` shows what is known"
        )


def _at_the_hub(model: str, fact: Fact[Model]) -> tuple[str, list[str]]:
    """The model to serve, and a note if its name has no organization: vLLM needs the hub's model ID, or a folder."""
    id_ = fact.value.id
    if "/" in model or fact.may_deny:  # of exactly that name
        return model, []
    if last_part(id_) == last_part(model) and "/" in id_:
        return id_, [f"{model} is read as {id_}: vLLM needs a model ID of the hub, or the path of a folder"]
    return model, [f"{model} is not a model ID of the hub: vLLM needs one, or the path of a folder"]


def _write(output: str, ways: Sequence[Way], need: NeedsQuestion, named: Accelerator | None) -> int:
    """Prints the manifest of the best way. For a name that several GPU models have, that is the best way with the
    commonest of them, as long as it holds the requests."""
    possible = [way for way in ways if way.refused is None]
    usual = gpu.commonest(named.gpus).labels[:1] if named is not None else ()
    best = min(possible, key=lambda way: way.offer.stock.product not in usual, default=None)
    if best is None:
        raise edge.UnusableError(
            f"-o {output}: nothing that was tried holds {need.users} × {need.context:,} tokens of {need.model.id}; "
            "try a shorter --context, or other GPUs with --gpu NAME"
        )
    try:
        others = generate.other_labels(named, best.offer.stock.product)
        print(generate.render(output, best.engine, others), end="")
    except ValueError as error:
        raise edge.UnusableError(f"-o {output}: {error}") from error
    return 0


def _having(args: argparse.Namespace, facts: Facts) -> tuple[Facts, Sequence[Stock], list[str]]:
    """The facts, the stocks to choose from, and notes. The stocks are the GPU named, a cluster's, or what clusters
    usually have."""
    if facts.gpu is not None:
        if args.nodes:
            raise edge.UnusableError("--gpu and --nodes exclude each other: --gpu names a GPU, --nodes offers a choice")
        labels = [label for product in facts.gpu.gpus for label in product.labels[:1]]
        if not labels:
            raise edge.UnusableError(
                f"--gpu {args.gpu}: `plan MODEL` and -o support only whole NVIDIA GPUs. For other GPUs plan a command "
                f"line: podfit plan --gpu {args.gpu} -- vllm serve MODEL --max-model-len TOKENS"
            )
        return facts, [Stock(label) for label in dict.fromkeys(labels)], []
    if not args.nodes:
        return facts, needs.CATALOGUE, []
    snapshot = fleet.read(args.nodes).snapshot
    nodes = snapshot.nodes or ()
    having = needs.stocks(nodes)
    if not having:
        raise edge.UnusableError(
            f"--nodes {args.nodes}: none of {len(nodes)} nodes has both nvidia.com/gpu to allot and the label "
            "nvidia.com/gpu.product (GPU feature discovery sets it); --gpu NAME plans without them",
            3,
        )
    unnamed = sum(bool(node.allocatable.get(needs.RESOURCE)) for node in nodes) - sum(
        stock.nodes or 0 for stock in having
    )
    notes = (
        [f"{unnamed} nodes have GPUs that no label nvidia.com/gpu.product names, or parts of GPUs"] if unnamed else []
    )
    return replace(facts, cluster=snapshot), having, notes


def _base_result(model: str, options: Sequence[str], version: str, facts: Facts, policy: Policy) -> Result:
    """The model served with nothing but what is given."""
    report = judged_as(["vllm", "serve", model, *options], version, replace(facts, cluster=None), policy)
    if not report.results:
        raise edge.UnusableError(f"{model}: {report.errors[0].error if report.errors else 'not a model'}")
    result = report.results[0]
    if result.engine.args.errors:
        raise edge.UnusableError(result.engine.args.errors[0].message)
    return result
