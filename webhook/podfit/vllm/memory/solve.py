"""Changes that would fit, computed by the planner: least first, each enough by itself.

This module makes no estimate of its own: a change is applied to the arguments, the model or the accelerator, and
`plan.fits` decides. Changes are ranked by what they affect (the model's answers last), by the number of edits, and by
what is given up: context and sequences before GPUs.

A search is limited by a number of plans, not by a time, so that a manifest gets the same advice on every machine. The
benchmark compares the time of that many plans with 15 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from podfit.kube.quantity import GI
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu, by_name
from podfit.vllm.memory import division, parallel, plan, quantisation, served_copies
from podfit.vllm.memory.division import divisible
from podfit.vllm.memory.search import Search, SpentError, with_changes
from podfit.vllm.memory.settings import default_utilization
from podfit.vllm.model import Model, derived_max_model_len
from podfit.vllm.release import newest_read

MAX_SUGGESTIONS = 3
"""Suggestions of a denial."""
MAX_PLANS = 75
"""Plans that a denial may cost: 99 of 100 searches end before (median 14, 25 if the release is unknown)."""
LEAST_CONTEXT = 2048
"""A shorter context than this is not suggested."""
SAFE_UTILIZATION = 0.95
SHARES = (0.9, 0.92, 0.93, 0.94, SAFE_UTILIZATION)
"""Shares of GPU memory that are tried. Before 0.20, CUDA graphs are outside of the share, so a larger one may fit
less."""
SMALLER_SHARES = (SAFE_UTILIZATION, 0.92, 0.9)
NODE = 8
"""GPUs of one node."""
PRODUCTS = (
    "NVIDIA-L4", "NVIDIA-A10G", "NVIDIA-A100-SXM4-40GB", "NVIDIA-L40S", "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-B200",
)  # fmt: skip
"""GPU models that clusters have, by memory and price: values of the label nvidia.com/gpu.product."""
CHANGES_OUTPUT = "(changes the model's output)"
STEP = 1024
"""Tokens between two context lengths that are suggested."""
USEFUL_LOSS = 0.5
"""A change that loses less than this is enough: no combination of two changes is searched then."""
WORTH_TWO_CHANGES = 1.5
"""Times as many tokens as one change alone must two changes keep (chosen: the user edits two things)."""
SECOND_CHANGE = 0.05
"""The loss of the second of two changes (chosen: less than any other)."""
LEAST_LARGE_SHARE = 0.93
"""A share of the GPU from which on smaller ones are tried (chosen: above vLLM's defaults of 0.9 and 0.92)."""
MORE_MEMORY = 1.05
"""Times as much memory must a larger GPU model have (chosen)."""


class Order(NamedTuple):
    """The order of changes, best first: the one that compares less is better."""

    changes_output: bool
    """It changes the model's answers."""
    edits: int
    """Number of things that the user edits."""
    loss: float
    """As `Alternative.loss`."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One change."""

    text: str
    """For people."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Argument (vLLM's dest) → value; `gpus` → GPUs that the container needs; `product` → the label's value."""
    edits: int = 1
    """Number of things that the user edits."""
    loss: float = 0.0
    """The loss: below 1 context, sequences or speed; from 1 on, the change needs other hardware."""
    changes_output: bool = False
    """The model's answers change: an 8-bit KV cache, another checkpoint."""
    stands_for: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that were planned instead, if the change is not an argument (a checkpoint outside the catalog)."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The changed arguments, as flags of the command."""
        return _flags(self.changes)

    @property
    def order(self) -> Order:
        """The key by which changes are sorted: less is better."""
        return Order(self.changes_output, self.edits, self.loss)


def flag(dest: str, value: Any) -> str:
    """An argument as the command has it: `--max-model-len 4096`, `--enforce-eager`, `--kv-cache-memory-bytes 4G`."""
    name = f"--{dest.replace('_', '-')}"
    if value is True:
        return name
    return f"{name} {value // GI}G" if dest == "kv_cache_memory_bytes" else f"{name} {value}"  # vLLM's G is 2**30


def _flags(changes: Mapping[str, Any]) -> tuple[str, ...]:
    """The changed arguments as flags."""
    return tuple([flag(dest, value) for dest, value in changes.items() if dest not in ("gpus", "product")])


def by_flags(changes: Mapping[str, Any], *, loss: float = 0.0, edits: int = 1, remark: str = "") -> Alternative:
    """The change of arguments; its text lists their flags. `loss`, `edits`: as in `Alternative`; `remark`: the end of
    the text."""
    return Alternative(" and ".join(_flags(changes)) + remark, changes, edits, loss)


DEEPEST = 512
"""Layers of a model for which changes are searched: each plan takes time in proportion to them, and no published model
has more than 128."""


class _Finder(NamedTuple):
    """A search for changes of one kind."""

    best: Order
    """No change of this kind is better."""
    find: Callable[[], Iterator[Alternative]]


def alternatives(
    args: EngineArgs,
    model: Model,
    accelerator: Accelerator,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
    products: Sequence[str] = PRODUCTS,
    most: int = MAX_SUGGESTIONS,
    steps: int = MAX_PLANS,
) -> list[Alternative]:
    """At most `most` changes after which the plan fits, best first; none if no simple change helps.

    `products`: labels of the available accelerators. `steps`: plans that the search may make; after that, it returns
    what it has found.
    """
    if accelerator.shared:
        return []  # with any change, other processes may still use the same GPU
    if model.described_layers > DEEPEST:
        return []
    search = Search(args, model, accelerator, gpu_memory, env, steps)
    items: list[Alternative] = []
    full = search.is_full()  # then only more memory or smaller weights help
    finders = (
        _Finder(Order(False, 1, 0), lambda: _utilization(search)),
        _Finder(Order(False, 1, 0), lambda: _cache_memory(search)),
        _Finder(Order(False, 1, 0), lambda: iter(()) if full else _shorter_length(search)),
        _Finder(Order(False, 1, 0), lambda: iter(()) if full else _batch(search)),
        _Finder(Order(False, 1, 1), lambda: _product(search, products)),
        _Finder(Order(False, 2, 1), lambda: _more_gpus(search)),
        _Finder(Order(False, 2, 0), lambda: _both(search, items)),
        _Finder(Order(False, 3, 2), lambda: _product_and_gpus(search, products, items)),
        _Finder(Order(True, 1, 0), lambda: iter(()) if full else _cache_dtype(search)),
        _Finder(Order(True, 1, 0), lambda: _checkpoint(search)),
    )
    try:
        for finder in finders:
            if len(items) < most or _count_better(items, finder.best) < most:
                items.extend(finder.find())  # changes that were found before SpentError stay in the list
    except SpentError:
        pass
    return sorted(_choices(items), key=lambda alternative: alternative.order)[:most]


def _count_better(alternatives: Sequence[Alternative], best: Order) -> int:
    """How many of the choices are better than a change of this order can be."""
    return sum(alternative.order < best for alternative in _choices(alternatives))


def _choices(alternatives: Sequence[Alternative]) -> Sequence[Alternative]:
    """The changes from which the user chooses. All, unless a larger share of the GPU alone is enough: then only those
    of one edit, and more GPUs, which need two."""
    if {"gpu_memory_utilization"} not in [alternative.changes.keys() for alternative in alternatives]:
        return alternatives
    return [
        alternative
        for alternative in alternatives
        if alternative.edits == 1 or ("gpus" in alternative.changes and alternative.edits == 2)
    ]


def fewer_ranks(
    args: EngineArgs, model: Model, accelerator: Accelerator, *, env: Mapping[str, str] | None = None, requests: float
) -> int | None:
    """The least tensor-parallel size, below the present one, with which this engine still fits.

    Context stays the same, and at least `requests` of it fit at once. None if all ranks are needed, and for engines
    with pipeline stages or context parallelism."""
    now = parallel.read(args, env)
    if now.pp * now.pcp * now.dcp > 1:
        return None
    for size in (1, 2, 4):  # the largest is half of a node
        if size >= now.tp or not divisible(model, size, args):
            continue
        fewer = with_changes(args, {"tensor_parallel_size": size})
        release_plan = plan.judge(fewer, model, accelerator, env=env)
        concurrency = release_plan.ledger.max_concurrency if release_plan.ledger else None
        if release_plan.verdict == "fits" and release_plan.ledger and (concurrency or 0) >= requests:
            return size
    return None


def _utilization(search: Search) -> Iterator[Alternative]:
    """The least larger share of the GPU that fits, up to the one that leaves room for the CUDA context.

    Else the largest smaller one: vLLM would find too little free memory, or capture CUDA graphs outside of its share.
    """
    if search.args.given.get("kv_cache_memory_bytes"):  # then the share is not used
        return
    now = share_of(search.args)
    larger = [larger_share for larger_share in SHARES if larger_share > now]
    if larger and search.is_full(max(larger)):
        larger = []
    for share in (*larger, *_smaller_shares(now)):
        if search.fits({"gpu_memory_utilization": share}):
            yield by_flags({"gpu_memory_utilization": share}, loss=abs(share - now))
            return


def share_of(args: EngineArgs) -> float:
    """The `--gpu-memory-utilization` in effect: 0 to 1, the release's default if it is not set."""
    given = args.given.get("gpu_memory_utilization")
    usual = default_utilization(args.release or newest_read())
    return given if isinstance(given, int | float) and not isinstance(given, bool) else usual


def _smaller_shares(now: float) -> list[float]:
    """The smaller shares to try, the largest first; none if the present one is below LEAST_LARGE_SHARE."""
    return [share for share in SMALLER_SHARES if share < now] if now >= LEAST_LARGE_SHARE else []


def _cache_memory(search: Search) -> Iterator[Alternative]:
    """If the KV cache's bytes are given: the least whole GiB for one request, if the GPU has that much. No change if
    they are not given or are enough."""
    now = search.given("kv_cache_memory_bytes")
    if now is None:
        return
    release_plan = plan.judge(
        search.args, search.model, search.accelerator, gpu_memory=search.gpu_memory, env=search.env
    )
    needed = release_plan.ledger.kv_cache_bytes_per_request if release_plan.ledger else None
    all_of_gpu = {"kv_cache_memory_bytes": None, "gpu_memory_utilization": SAFE_UTILIZATION}
    if not needed or needed <= now or not search.fits(all_of_gpu):
        return
    least = -(-needed // GI)
    for size in (least, least + 1):  # from 0.28 on, vLLM needs one more block than the request
        if search.fits({"kv_cache_memory_bytes": size * GI}):
            yield by_flags({"kv_cache_memory_bytes": size * GI})
            return


def _longest(search: Search, also: Mapping[str, Any], gpus: Sequence[Gpu] | None = None) -> int | None:
    """Tokens of the longest context, shorter than the present one, that fits with the changes `also`. A multiple of
    STEP; None if none of useful length fits. `gpus`: other GPU models, None for the present ones.

    This is a bisection over multiples of STEP. It starts with the length that the KV cache has room for by arithmetic,
    and with the next one: usually the first fits and the second does not.
    """
    present = search.given("max_model_len") or derived_max_model_len(search.model, search.args.release)
    if present is None:
        return None
    high = (present - 1) // STEP
    if high * STEP < LEAST_CONTEXT or not search.fits({**also, "max_model_len": LEAST_CONTEXT}, gpus):
        return None
    low = LEAST_CONTEXT // STEP  # it fits; all above `high` do not
    likely = search.longest({**also, "max_model_len": high * STEP}, gpus) // STEP
    while low < high:
        if low < likely <= high:
            middle = likely
        elif low < likely + 1 <= high:
            middle = likely + 1
        else:
            middle = (low + high + 1) // 2
        if search.fits({**also, "max_model_len": middle * STEP}, gpus):
            low = middle
        else:
            high = middle - 1
    return low * STEP


def _lost_share(search: Search, tokens: int) -> float:
    """Share of the context length that is lost at `tokens`, 0 to 1."""
    full_length = search.given("max_model_len") or derived_max_model_len(search.model, search.args.release) or tokens
    return 1 - tokens / full_length


def _shorter_length(search: Search) -> Iterator[Alternative]:
    """The longest shorter --max-model-len that fits; none if no length does."""
    if tokens := _longest(search, {}):
        yield by_flags({"max_model_len": tokens}, loss=_lost_share(search, tokens))


def _batch(search: Search) -> Iterator[Alternative]:
    """Changes that save a little memory: fewer sequences at once, smaller batches, or no CUDA graphs.

    Of each kind the one that gives up least. Batches are made smaller only if the command sets their size."""
    seqs = search.given("max_num_seqs") or MOST_USUAL_SEQS
    for fewer in FEWER_SEQS:
        if fewer < seqs and search.fits({"max_num_seqs": fewer}):
            yield by_flags({"max_num_seqs": fewer}, loss=LOSS_OF_ALL_SEQS * (1 - fewer / seqs))
            break
    tokens = search.given("max_num_batched_tokens")
    for smaller in SMALLER_BATCHES:
        if tokens and smaller < tokens and search.fits({"max_num_batched_tokens": smaller}):
            yield by_flags({"max_num_batched_tokens": smaller}, loss=LOSS_OF_BATCH)
            break
    if not search.args.given.get("enforce_eager") and search.fits({"enforce_eager": True}):
        yield by_flags({"enforce_eager": True}, loss=LOSS_OF_GRAPHS, remark=" (slower)")


MOST_USUAL_SEQS = 1024
"""The largest default of max_num_seqs in any release (`settings.default_max_num_seqs`)."""
FEWER_SEQS, SMALLER_BATCHES = (256, 128, 64, 16), (8192, 2048)
"""Values that are tried: defaults of vLLM's releases, and fewer."""
LOSS_OF_ALL_SEQS, LOSS_OF_BATCH, LOSS_OF_GRAPHS = 0.5, 0.3, 0.6
"""Losses (chosen), next to the share of the context that a shorter one gives up: of nearly all sequences, of a smaller
batch, and of the CUDA graphs."""


class _Cut(NamedTuple):
    """A way to cut the engine over more GPUs of one node."""

    gpus: int
    """GPUs of the container."""
    changes: Mapping[str, Any]
    """Argument (vLLM's dest) → value."""


class _LargerGpus(NamedTuple):
    """GPU models with more memory than the present ones."""

    label: str
    """The value of the label nvidia.com/gpu.product."""
    gpus: tuple[Gpu, ...]
    new_share: float
    """The share of their memory by which they are larger, 0 to 1."""


def _cuts(search: Search) -> Iterator[_Cut]:
    """Ways to cut the engine over more GPUs of one node; none for MIG slices, of which one process uses one.

    Tensor parallelism comes first; if no size divides the heads, pipeline stages.
    """
    now = search.cut
    if any(gpu.mig for gpu in search.accelerator.gpus):
        return
    sizes = [size for size in (2, 4, NODE) if size > now.tp and divisible(search.model, size, search.args)]
    for size in sizes:
        gpus = size * now.pp * now.dp_local
        if gpus <= NODE * max(1, now.nnodes) or now.pp * now.dp_local > 1:
            yield _Cut(gpus, {"tensor_parallel_size": size})
    if not sizes and now.pp == 1:
        for stages in (2, 4, NODE):
            if stages <= (search.model.num_hidden_layers or 0) and now.tp * stages <= NODE:
                gpus = now.tp * stages * now.dp_local
                yield _Cut(gpus, {"pipeline_parallel_size": stages})


def _more_gpus(search: Search) -> Iterator[Alternative]:
    """The fewest GPUs of this model over which it fits, or the most with a shorter context; none if neither fits."""
    now = search.cut.world_size * search.cut.dp_local
    cuts = list(_cuts(search))
    for cut in cuts:
        if search.fits(cut.changes):
            yield _by_gpus(cut.gpus, cut.changes, edits=2, loss=1 + (1 - now / cut.gpus))
            return
    if cuts:
        most = cuts[-1]
        if tokens := _longest(search, most.changes):
            loss = 1 + (1 - now / most.gpus) + _lost_share(search, tokens)
            yield _by_gpus(most.gpus, {**most.changes, "max_model_len": tokens}, edits=3, loss=loss)


def _by_gpus(count: int, changes: Mapping[str, Any], *, edits: int, loss: float) -> Alternative:
    """The change to so many GPUs, with arguments."""
    text = f"{count} GPUs with {' and '.join(_flags(changes))}"
    return Alternative(text, {**changes, "gpus": count}, edits, loss)


class _NamedGpus(NamedTuple):
    """The GPU models that a product label may mean."""

    gpus: tuple[Gpu, ...]
    least_memory: int
    """Bytes of the smallest of them; 0 if there are none."""


@lru_cache(64)
def _named(label: str) -> _NamedGpus:
    """The GPU models of a label, cached."""
    gpus = by_name(label)
    return _NamedGpus(gpus, min((gpu.memory for gpu in gpus), default=0))


def _larger(search: Search, products: Sequence[str]) -> Iterator[_LargerGpus]:
    """The GPU models of these labels that have more memory than the smallest present GPU, by MORE_MEMORY. No model if a
    present one is not of NVIDIA, because the labels are NVIDIA's."""
    now = search.accelerator.gpus
    if any(gpu.vendor != "nvidia" for gpu in now):
        return
    present = min([gpu.memory for gpu in now], default=0)
    for label in products:
        named = _named(label)
        if named.least_memory > MORE_MEMORY * present:
            yield _LargerGpus(label, named.gpus, new_share=1 - present / named.least_memory)


def _product(search: Search, products: Sequence[str]) -> Iterator[Alternative]:
    """The first of the larger GPU models that fits with no other change; none if none does."""
    for larger in _larger(search, products):
        if search.fits({}, larger.gpus):
            yield Alternative(
                f"nodeSelector nvidia.com/gpu.product: {larger.label}",
                {"product": larger.label},
                loss=1 + larger.new_share,
            )
            return


def _product_and_gpus(
    search: Search, products: Sequence[str], alternatives: Sequence[Alternative]
) -> Iterator[Alternative]:
    """Both more GPUs and a larger GPU model; none if one of the alternatives has either, which then is enough."""
    if any("gpus" in alternative.changes or "product" in alternative.changes for alternative in alternatives):
        return
    now = search.cut.world_size * search.cut.dp_local
    cuts = list(_cuts(search))
    for larger in _larger(search, products):
        for cut in cuts:
            if search.fits(cut.changes, larger.gpus):
                more_gpus = _by_gpus(cut.gpus, cut.changes, edits=3, loss=2 + larger.new_share + (1 - now / cut.gpus))
                text = f"{more_gpus.text} and nodeSelector nvidia.com/gpu.product: {larger.label}"
                yield replace(more_gpus, text=text, changes={**more_gpus.changes, "product": larger.label})
                return


def _both(search: Search, alternatives: Sequence[Alternative]) -> Iterator[Alternative]:
    """Another share of the GPU together with a shorter context. None if one of the alternatives loses less than
    USEFUL_LOSS, if the share is not used, or if the context is not WORTH_TWO_CHANGES."""
    lengths = [alternative.changes.get("max_model_len", 0) for alternative in alternatives]
    is_one_enough = any(not change.changes_output and change.loss < USEFUL_LOSS for change in alternatives)
    if is_one_enough or search.args.given.get("kv_cache_memory_bytes"):
        return
    shares = _smaller_shares(share_of(search.args)) or (SAFE_UTILIZATION, SHARES[1])
    if search.is_full(max(shares)):
        return
    for share in shares:
        also = {"gpu_memory_utilization": share}
        tokens = _longest(search, also)
        if tokens and tokens >= WORTH_TWO_CHANGES * max(lengths, default=0):
            loss = _lost_share(search, tokens) + SECOND_CHANGE
            yield by_flags({**also, "max_model_len": tokens}, loss=loss, edits=2)
            return


def _least_capability(search: Search) -> tuple[int, int]:
    """(major, minor) of the least capable GPU; (0, 0) if one is not known."""
    return min((gpu.compute_capability or (0, 0) for gpu in search.accelerator.gpus), default=(0, 0))


def _cache_dtype(search: Search) -> Iterator[Alternative]:
    """An 8-bit KV cache, if the type is not set and every backend of this GPU has one: on Ada and newer, not on Ampere.
    For latents before 0.18, only on Hopper and B200 (rule no-attention-backend)."""
    changes = {"kv_cache_dtype": "fp8"}
    capability, release = _least_capability(search), search.args.release
    if capability < (8, 9) or search.args.given.get("kv_cache_dtype") not in (None, "auto"):
        return
    if search.model.kv_lora_rank and release and release < (0, 18) and capability[0] not in (9, 10):
        return
    if search.fits(changes):
        yield Alternative(f"{CHANGES_OUTPUT} --kv-cache-dtype fp8", changes, changes_output=True)


def _checkpoint(search: Search) -> Iterator[Alternative]:
    """A quantized copy of the model from the catalog, with the most bits that fit. If the catalog has none, and the GPU
    is Ampere or newer: FP8 while loading, else a copy in 4 bits that the user must find. None for a quantized model."""
    if search.model.quantization_config or search.args.given.get("quantization"):
        return
    has_copies, tried_sizes = False, set[float]()
    for copy in served_copies.copies(search.model, search.accelerator.gpus):
        cut = division.blocks(search.args, copy)
        if cut is not None and not cut.hold(search.cut.tp):
            continue
        has_copies, scheme = True, quantisation.scheme(copy, None)
        if scheme is None or round(scheme.bytes, 1) in tried_sizes:
            continue
        tried_sizes.add(round(scheme.bytes, 1))  # copies of one size differ little: one plan for them
        if search.fits({}, model=copy):
            # the lost share of 16 bits; bitsandbytes is the slowest format, and comes after all others
            loss = 1 - scheme.bytes / 2 + (scheme.name == "bitsandbytes")
            yield Alternative(f"{CHANGES_OUTPUT} {copy.id}", {"model": copy.id}, loss=loss, changes_output=True)
            return
    if not has_copies and _least_capability(search) >= (8, 0):
        if search.fits({"quantization": "fp8"}):
            changes = {"quantization": "fp8"}
            yield Alternative(f"{CHANGES_OUTPUT} --quantization fp8", changes, loss=0.5, changes_output=True)
        elif search.fits({"quantization": "awq"}):
            text = f"{CHANGES_OUTPUT} a checkpoint in 4 bits (AWQ or GPTQ)"
            yield Alternative(text, loss=0.75, changes_output=True, stands_for={"quantization": "awq"})
