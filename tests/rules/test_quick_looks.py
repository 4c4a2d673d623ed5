"""The quick looks that spare most Pods a thorough one: where they say that nothing is there, nothing is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.kube.path import FieldPath
from podfit.rules import _flags
from podfit.rules.gpu import image_for_other_gpu
from podfit.rules.operations import unpinned_image
from podfit.rules.probes import probe_wrong_path
from podfit.vllm.args import EngineArgs
from podfit.vllm.args.flags import builtin as table
from podfit.vllm.command import Word

PARTS = ("vllm/", "rocm/", "ghcr.io/", "mirror/", "vllm", "vllm-openai", "-dev", "-rocm", "-xpu", "-cpu", ":v0.11.0",
         ":latest", "-nightly", "@sha256:0", "ROCM", "XPU")  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
def test_an_image_for_another_vendors_gpus_says_so(image: str) -> None:
    vendor = image_for_other_gpu._vendor_of_image(image)

    assert image_for_other_gpu._may_be_for_another(image) or vendor in (None, image_for_other_gpu._NVIDIA)


def test_images_for_other_gpus_are_among_those() -> None:
    vendors = [
        image_for_other_gpu._vendor_of_image(f"vllm/vllm-openai{build}:v0.11.0") for build in ("", "-rocm", "-xpu")
    ]

    assert vendors == ["nvidia.com/", "amd.com/", "gpu.intel.com/"]


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

    assert not list(probe_wrong_path._wrong_path(engine, "startupProbe", {"path": path}))


@given(st.lists(st.sampled_from(["latest", "Nightly", "v0.11.0", "main", "", "stablex", "dev"]), max_size=3))
def test_a_tag_that_moves_has_a_word_that_says_so(parts: list[str]) -> None:
    tag = "-".join(parts)

    assert unpinned_image._is_moving(tag) == (unpinned_image._MOVING_TAG.fullmatch(tag) is not None)
