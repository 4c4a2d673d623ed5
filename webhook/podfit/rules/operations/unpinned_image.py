from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.rules import releases
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import release


class UnpinnedImage(Rule):
    """The image's tag does not show which vLLM release will run.

    Flags, defaults and memory use change with every vLLM release. With `latest`, `nightly` or no tag a restart can
    bring a release that does not know today's arguments, and podfit can only check what is the same in all releases.
    """

    plane = "config"
    event = "a restart may run another vLLM release"
    of_vllm = False
    threatens = "practice"
    forbids = True
    mute_for = ("image",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: the registry may replace the image of such a tag. None for a digest, a tag that does not move, and a
        placeholder that a tool fills in."""
        image = engine.field("image")
        if not isinstance(image, str) or not image or "@sha256:" in image:
            return
        name, _, tag = image.rpartition("/")[2].partition(":")
        if tag and not _is_moving(tag[:_MAX_TAG_CHARACTERS]):
            return
        repository = image[: release.LONGEST].removesuffix(f":{tag}") if tag else image[: release.LONGEST]
        if _PLACEHOLDER.search(f"{repository}:{tag}") or _UPPER.search(repository):
            return
        what = f"the tag {tag!r} moves" if tag else f"no tag: {name}:latest is pulled"
        yield Finding(
            path=engine.at("image"),
            message=f"image {image!r}: {what}, so the vLLM release is not known",
            propose=lambda: _pinned(engine, image),
        )


def _pinned(engine: Engine, image: str) -> str:
    """The change in words, with the tag of a release as an example if the image is vLLM's own."""
    if not release.is_official(image):
        return "a tag that names the release, or a digest"
    proposed = f"{_published(engine, image)}:v{releases.proposed(engine)}"
    return f"a tag that names the release, such as {proposed}, or a digest"


_PLACEHOLDER = regex(r"\$[({\w]|\{\{|[<>]|%\w+%|@\w+@|__\w+__|\byour[-_]|(change|replace)[-_]?me|placeholder", re.I)
"""`${IMAGE}`, `{{ .Values.image }}`, `<registry>/vllm`: placeholders whose value may include the tag."""
_UPPER = regex(r"[A-Z]")
"""A repository's name has no capitals (distribution/reference): REGISTRY/vllm is a placeholder."""
_MAX_TAG_CHARACTERS = 128
"""The longest tag (distribution/reference)."""
_ROCM = regex(r"(^|[/:._-])rocm", re.IGNORECASE)
_XPU = regex(r"(^|[/:._-])xpu", re.IGNORECASE)
_CPU = regex(r"(^|[/:._-])cpu", re.IGNORECASE)
_MOVING_WORDS = frozenset({"latest", "nightly", "main", "master", "dev", "edge", "head", "stable"})
"""Parts of tags that registries replace with each build."""
_MOVING_TAG = regex(rf"(.+-)?({'|'.join(sorted(_MOVING_WORDS))})(-.+)?", re.IGNORECASE)
_OF_A_COMMIT = regex(r"-g?(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|-\d{8}\b")
"""`nightly-0d4044e…`, `main-20251103`: one build, which does not move."""


def _is_moving(tag: str) -> bool:
    """True if the image of a tag is replaced over time ("latest", "nightly-x86_64"). False for a tag that names a
    commit or a day."""
    if _MOVING_WORDS.isdisjoint(tag.lower().split("-")):
        return False  # quick, for most tags
    return _MOVING_TAG.fullmatch(tag) is not None and _OF_A_COMMIT.search(tag) is None


def _published(engine: Engine, image: str) -> str:
    """The repository of vLLM's own image for the devices that this one is for: AMD's or Intel's GPUs or processors, as
    its name or the requested resource shows; else CUDA."""
    resource = engine.requested[0] if engine.requested else ""
    image = image[: release.LONGEST]
    if _ROCM.search(image) or resource.startswith("amd.com/"):
        return "vllm/vllm-openai-rocm"
    if _XPU.search(image) or resource.startswith("gpu.intel.com/"):
        return "vllm/vllm-openai-xpu"
    if engine.on_processors or (not resource and _CPU.search(image)):
        return "vllm/vllm-openai-cpu"
    return "vllm/vllm-openai"
