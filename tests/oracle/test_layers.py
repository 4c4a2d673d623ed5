"""The models whose layers the oracle builds; torch and vLLM are not needed here."""

from __future__ import annotations

import importlib.machinery

from oracle.cases import BUILT, BUILT_GPUS, configs, generate_built, kinds
from oracle.layers import Compilers
from podfit.vllm.memory import kv_specs, settings
from podfit.vllm.model import from_config
from podfit.vllm.release import Release
from tests.vllm.memory.engines import engine, gpu


def test_each_model_is_asked_on_both_gpus_with_two_types_of_cache() -> None:
    cases = [case for card in BUILT_GPUS for case in generate_built(Release(0, 33), card, 1)]
    assert len(BUILT_GPUS) == 2
    assert {(case.model, case.gpu["name"], case.arguments[3]) for case in cases} == {
        (model, card["name"], dtype) for model in BUILT for card in BUILT_GPUS for dtype in ("auto", "fp8")
    }
    assert cases == [case for card in BUILT_GPUS for case in generate_built(Release(0, 33), card, 1)]


def test_podfit_describes_the_layers_of_every_model_that_is_built_but_one() -> None:
    described = set()
    for name in BUILT:
        model = from_config(name, configs()[name])
        resolved = settings.resolve(engine("0.33.0"), model, gpu(141), 141 << 30, Release(0, 33), {}).settings
        specs = kv_specs.of(model, kv_specs.stored(resolved))
        assert specs is not None
        described |= {name} if specs.known else set()
    assert set(BUILT) - described == {"zai-org/GLM-5.3-Flash"}


def test_no_model_that_is_built_has_its_layers_written_by_hand_in_addition() -> None:
    assert kinds(configs()["MiniMaxAI/MiniMax-M3"]) is None


def test_a_compiler_of_kernels_accepts_everything() -> None:
    finder = Compilers()
    assert finder.find_spec("torch.cuda", None) is None
    spec = finder.find_spec("cutlass.cute", None)
    assert isinstance(spec, importlib.machinery.ModuleSpec)
    module = finder.create_module(spec)
    assert module.jit(lambda: None) is not None
