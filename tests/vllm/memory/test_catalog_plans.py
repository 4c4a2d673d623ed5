"""Plans of the catalog's models: more memory and less work never turn `fits` around, and suggestions do fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from podfit.kube.quantity import GI
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu, all_products, by_name
from podfit.vllm.memory import solve
from podfit.vllm.memory.ledger import Verdict
from podfit.vllm.memory.plan import judge
from podfit.vllm.memory.search import with_changes
from podfit.vllm.model import Model, by_id
from podfit.vllm.model.catalogue import ids
from podfit.vllm.release import known_releases

STEPS = (70 * GI, 160 * GI)
"""The GPU memory at which vLLM's defaults grow (engine/arg_utils.py)."""
GPUS = [gpu for gpu in all_products() if gpu.vendor in ("nvidia", "amd") and gpu.memory > 0]
RELEASES = st.sampled_from((None, *known_releases()))
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "tensor_parallel_size": st.sampled_from((1, 2, 4, 8)),
        "pipeline_parallel_size": st.sampled_from((1, 2, 3)),
        "max_model_len": st.sampled_from((2048, 8192, 32768, 131072, -1)),
        "max_num_seqs": st.sampled_from((1, 16, 64, 256, 1024)),
        "max_num_batched_tokens": st.sampled_from((512, 2048, 8192, 32768)),
        "gpu_memory_utilization": st.sampled_from((0.3, 0.6, 0.8, 0.9, 0.92, 0.95, 0.98, 1.0)),
        "kv_cache_dtype": st.sampled_from(("auto", "fp8", "bfloat16", "int8_per_token_head")),
        "enforce_eager": st.just(value=True),
        "quantization": st.sampled_from(("fp8", "bitsandbytes")),
        "enable_lora": st.just(value=True),
        "cpu_offload_gb": st.just(4.0),
        "kv_cache_memory_bytes": st.just(8 * GI),
        "speculative_config": st.sampled_from(({"method": "mtp", "num_speculative_tokens": 2}, {"method": "ngram"})),
    },
)
EXAMPLES = 200


def _model(name: str) -> Model:
    """The catalog's model of that name."""
    fact = by_id(name)
    assert fact is not None
    return fact.value


MODELS = st.builds(_model, st.sampled_from(sorted(ids())))


def verdict(model: Model, release: Any, given_: dict[str, Any], gpu: Gpu) -> Verdict:
    """What the plan on one GPU comes to."""
    return judge(EngineArgs(release=release, given=given_), model, Accelerator((gpu,), 1)).verdict


@settings(max_examples=EXAMPLES, deadline=None)
@given(MODELS, RELEASES, ARGUMENTS, st.sampled_from(GPUS), st.integers(4, 190), st.integers(1, 400))
def test_more_memory_never_turns_a_fit_into_a_refusal(
    model: Model, release: Any, given_: dict[str, Any], gpu: Gpu, gib: int, tenths: int
) -> None:
    less, more = gib * GI, gib * GI + tenths * GI // 10
    has_defaults = not {"max_num_seqs", "max_num_batched_tokens"} <= given_.keys()
    assume(not (has_defaults and any(less < step <= more for step in STEPS)))  # there, vLLM itself takes more

    tight, roomy = (verdict(model, release, given_, gpu.with_memory(memory)) for memory in (less, more))

    assert (tight, roomy) != ("fits", "does-not-fit")


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    MODELS, RELEASES, ARGUMENTS, st.sampled_from(GPUS), st.sampled_from(("max_model_len", "max_num_seqs")),
    st.integers(1, 300_000), st.integers(1, 300_000),
)  # fmt: skip
def test_less_work_never_turns_a_fit_into_a_refusal(
    model: Model,
    release: Any,
    given_: dict[str, Any],
    gpu: Gpu,
    dest: Literal["max_model_len", "max_num_seqs"],
    one: int,
    other: int,
) -> None:
    if dest == "max_num_seqs":
        one, other = one % 2000 + 1, other % 2000 + 1

    tight, roomy = (verdict(model, release, {**given_, dest: n}, gpu) for n in sorted((one, other), reverse=True))

    assert (tight, roomy) != ("fits", "does-not-fit")


@settings(max_examples=EXAMPLES, deadline=None)
@given(MODELS, RELEASES, ARGUMENTS, st.sampled_from([gpu for gpu in GPUS if gpu.vendor == "nvidia"]))
def test_what_is_suggested_fits(model: Model, release: Any, given_: dict[str, Any], gpu: Gpu) -> None:
    """Each suggestion is applied and planned again, apart from the search."""
    args, where = EngineArgs(release=release, given=given_), Accelerator((gpu,), 1)
    assume(judge(args, model, where).verdict != "fits")

    for suggestion in solve.alternatives(args, model, where):
        changes = suggestion.changes
        changed = with_changes(args, {**changes, **suggestion.stands_for})
        on = replace(where, gpus=by_name(changes["product"])) if "product" in changes else where
        copy = by_id(changes["model"]) if "model" in changes else None
        assert judge(changed, model if copy is None else copy.value, on).verdict == "fits", suggestion.text
