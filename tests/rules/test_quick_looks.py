"""The quick looks that spare most Pods a thorough one: where they say that nothing is there, nothing is."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest
from podfit.kube.path import FieldPath
from podfit.rules import _flags, all_rules, glance
from podfit.rules.engine import Engine
from podfit.rules.gpu import image_for_other_gpu
from podfit.rules.operations import unpinned_image
from podfit.rules.probes import probe_wrong_path
from podfit.vllm.args import EngineArgs
from podfit.vllm.args.flags import builtin as table
from podfit.vllm.command import Word
from podfit.vllm.facts import Facts
from scripts.docs import beside, examples
from tests.conftest import GOOD_POD

PARTS = ("vllm/", "rocm/", "ghcr.io/", "mirror/", "vllm", "vllm-openai", "-dev", "-rocm", "-xpu", "-cpu", ":v0.11.0",
         ":latest", "-nightly", "@sha256:0", "ROCM", "XPU")  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
def test_an_image_for_another_vendors_gpus_says_so(image: str) -> None:
    vendor = image_for_other_gpu._vendor(image)

    assert image_for_other_gpu._may_be_for_another(image) or vendor in (None, image_for_other_gpu._USUAL)


def test_images_for_other_gpus_are_among_those() -> None:
    vendors = [image_for_other_gpu._vendor(f"vllm/vllm-openai{build}:v0.11.0") for build in ("", "-rocm", "-xpu")]

    assert vendors == ["nvidia.com/", "amd.com/", "gpu.intel.com/"]


def _engines(kinds: Iterable[str], rule_ids: Iterable[str]) -> Iterator[Engine]:
    """The engines of the rules' examples."""
    for rule_id in rule_ids:
        for path in (path for kind in kinds for path in examples(rule_id, kind)):
            read = manifest.read(path.read_bytes(), path.name)
            for document in read.documents:
                report = lint(document.object, builtin(), beside(read), where="check")
                yield from (result.engine for result in report.results)


RULES = {rule_id: rule() for rule_id, rule in all_rules().items() if rule.about}


def test_a_rule_finds_nothing_where_its_subject_is_not_shown() -> None:
    for engine in _engines(("bad", "good", "fixed"), all_rules()):
        shown = glance.shown(engine)
        silent = [rule for rule in RULES.values() if set(shown).isdisjoint(rule.about)]

        assert not [(rule.id(), found.message) for rule in silent for found in rule.check(engine)]


@pytest.mark.parametrize("rule_id", list(RULES))
def test_each_word_of_what_a_rule_is_about_stands_in_something_that_it_finds(rule_id: str) -> None:
    seen = {
        word
        for engine in _engines(("bad",), [rule_id])
        if next(RULES[rule_id].check(engine), None) is not None
        for word in glance.shown(engine)
    }

    assert seen >= set(RULES[rule_id].about)


WORDS = st.text(alphabet="-=: ab'{\t\u00a0", max_size=8) | st.sampled_from(
    ["--port=8000", "port=8000", "-- host=::", "--port 8000", "env:", "--env:", "model=a b", "\u00a0--seed 1", "args: "]
)


@given(st.lists(WORDS, max_size=4))
def test_odd_words_are_seen_among_all(texts: list[str]) -> None:
    words = tuple(Word(text, FieldPath(("args", number))) for number, text in enumerate(texts))
    engine: Any = SimpleNamespace(command=SimpleNamespace(words=words, shell=False, own_flags=False))
    engine.once = lambda of: of(engine)

    assert list(_flags.unsplit(engine)) == [
        number for number, text in enumerate(texts) if _flags._UNSPLIT.fullmatch(text) and len(text.split()) > 1
    ]
    assert set(_flags.misplaced(engine)) == {
        number
        for number, text in enumerate(texts)
        if _flags._YAML_KEY.fullmatch(text)
        or ((bare := _flags._WITHOUT_DASHES.fullmatch(text)) and f"--{bare['flag']}" in table().spellings)
    }


@given(st.sampled_from(probe_wrong_path.OPEN), st.sampled_from(["/health", "/", "v1", "/docs/", "/ping/x", "", None]))
def test_a_route_that_needs_no_key_is_answered_below_whatever_root(path: str, root: str | None) -> None:
    engine: Any = SimpleNamespace(args=EngineArgs(None, {"root_path": root, "api_key": ["secret"]}))

    assert not list(probe_wrong_path._path(engine, "startupProbe", {"path": path}))


@given(st.lists(st.sampled_from(["latest", "Nightly", "v0.11.0", "main", "", "stablex", "dev"]), max_size=3))
def test_a_tag_that_moves_has_a_word_that_says_so(parts: list[str]) -> None:
    tag = "-".join(parts)

    assert unpinned_image._is_moving(tag) == (unpinned_image._MOVES.fullmatch(tag) is not None)


RELEASES = ("v0.8.5", "v0.10.2", "v0.11.0", "v0.21.0", "v0.33.0")
SEQUENCES = (-5, -1, 0, 1, 100, 255, 256, 257, 3000)
LENGTHS = (None, -5, -1, 0, 1, 100, 256, 8192)


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", "BAAI/bge-m3"])
def test_numbers_that_a_check_refuses_are_seen_at_a_glance(model: str) -> None:
    rule, refused = RULES["conflicting-flags"], 0
    for release, seqs, length in product(RELEASES, SEQUENCES, LENGTHS):
        pod = copy.deepcopy(GOOD_POD)
        pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-L4"}
        args = [
            f"--model={model}",
            f"--max-num-seqs={seqs}",
            *([] if length is None else [f"--max-model-len={length}"]),
        ]
        pod["spec"]["containers"][0] |= {"image": f"vllm/vllm-openai:{release}", "command": [], "args": args}
        (result,) = lint(pod, builtin(), Facts()).results
        if list(rule.check(result.engine)):
            refused += 1
            assert set(rule.about) & set(glance.shown(result.engine)), args
    assert refused
