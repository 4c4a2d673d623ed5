"""vLLM releases: an image's tag → a release, and their order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Release:
    """A vLLM release; compares by number (`Release(0, 9) < Release(0, 20)`)."""

    major: int
    minor: int
    patch: int = 0
    post: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f".post{self.post}" if self.post else "")


def parse(text: str) -> Release | None:
    """ "v0.27.1", "0.8.5.post1", "0.11.0rc2", "0.20" → Release; None where `text` is no vLLM version."""
    raise NotImplementedError


def from_image(image: str) -> Release | None:
    """The release an image's tag names honestly, None for `latest`, digests alone, and other numbering schemes."""
    raise NotImplementedError
