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
        """Certain: the tag moves."""
        image = engine.field("image")
        if not isinstance(image, str) or not image or "@sha256:" in image:
            return
        name, _, tag = image.rpartition("/")[2].partition(":")
        place = image[: release.LONGEST].removesuffix(f":{tag}") if tag else image[: release.LONGEST]
        if (tag and not _is_moving(tag[:_LONGEST])) or _PLACEHOLDER.search(f"{place}:{tag}") or _UPPER.search(place):
            return
        what = f"the tag {tag!r} moves" if tag else f"no tag: {name}:latest is pulled"
        yield Finding(
            path=engine.at("image"),
            message=f"image {image!r}: {what}, so the vLLM release is not known",
            propose=lambda: _pinned(engine, image),
        )


def _pinned(engine: Engine, image: str) -> str:
    """The change in words, with an example if the image is vLLM's own."""
    if not release.is_official(image):
        return "a tag that names the release, or a digest"
    proposed = f"{_published(engine, image)}:v{releases.proposed(engine)}"
    return f"a tag that names the release, such as {proposed}, or a digest"


_PLACEHOLDER = regex(r"\$[({\w]|\{\{|[<>]|%\w+%|@\w+@|__\w+__|\byour[-_]|(change|replace)[-_]?me|placeholder", re.I)
"""`${IMAGE}`, `{{ .Values.image }}`, `<registry>/vllm`: placeholders whose value may include the tag."""
_UPPER = regex(r"[A-Z]")
"""A repository's name has no capitals (distribution/reference): REGISTRY/vllm is a placeholder."""
_LONGEST = 128
"""Characters of a tag (distribution/reference)."""
_ROCM = regex(r"(^|[/:._-])rocm", re.IGNORECASE)
_XPU = regex(r"(^|[/:._-])xpu", re.IGNORECASE)
_CPU = regex(r"(^|[/:._-])cpu", re.IGNORECASE)
_MOVING = frozenset({"latest", "nightly", "main", "master", "dev", "edge", "head", "stable"})
_MOVES = regex(rf"(.+-)?({'|'.join(sorted(_MOVING))})(-.+)?", re.IGNORECASE)
_OF_A_COMMIT = regex(r"-g?(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|-\d{8}\b")
"""`nightly-0d4044e…`, `main-20251103`: one build, which does not move."""


def _is_moving(tag: str) -> bool:
    """True if images of a tag are replaced over time (latest, nightly)."""
    if _MOVING.isdisjoint(tag.lower().split("-")):
        return False
    return _MOVES.fullmatch(tag) is not None and _OF_A_COMMIT.search(tag) is None


def _published(engine: Engine, image: str) -> str:
    """vLLM's own image for the processors that this one is for, as its name or the resource shows."""
    resource = engine.requested[0] if engine.requested else ""
    image = image[: release.LONGEST]
    builds = {
        "-rocm": _ROCM.search(image) or resource.startswith("amd.com/"),
        "-xpu": _XPU.search(image) or resource.startswith("gpu.intel.com/"),
        "-cpu": engine.on_processors or (not resource and _CPU.search(image)),
    }
    return f"vllm/vllm-openai{next((suffix for suffix, it in builds.items() if it), '')}"
