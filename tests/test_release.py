"""vLLM releases: their numbers, their order, and the image tags that name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook import release
from webhook.release import Release, is_official


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.27.1", Release(0, 27, 1)),
        ("v0.27.1", Release(0, 27, 1)),
        ("0.20", Release(0, 20)),
        ("0.8.5.post1", Release(0, 8, 5, 1)),
        ("0.10.1.1", Release(0, 10, 1, fix=1)),
        ("0.11.0rc2", Release(0, 11, 0)),
        ("0.11.1.dev40+g1a2b3c", Release(0, 11, 1)),
        ("1", None),
        ("latest", None),
        ("", None),
        ("0.11.0-cu128", None),
    ],
)
def test_a_version_is_read(text: str, expected: Release | None) -> None:
    """A candidate counts as the release that it leads to; what is no version is None."""
    assert release.parse(text) == expected


def test_releases_compare_by_number() -> None:
    """0.9 is older than 0.20, whatever the letters say."""
    assert Release(0, 9) < Release(0, 20)
    assert Release(0, 8, 5) < Release(0, 8, 5, 1) < Release(0, 9)


@given(st.builds(Release, *[st.integers(0, 99)] * 5))
def test_a_release_reads_back_what_it_writes(one: Release) -> None:
    """`parse` is the inverse of `str`."""
    assert release.parse(str(one)) == one


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        # vLLM's own images, mirrors and builds of them
        ("vllm/vllm-openai:v0.27.1", "0.27.1"),
        ("vllm/vllm-openai:0.8.5.post1", "0.8.5.post1"),
        ("vllm/vllm-openai:v0.11.0rc2", "0.11.0"),
        ("vllm/vllm-openai:v0.10.2-cu128", "0.10.2"),
        ("vllm/vllm-openai:v0.9.2@sha256:0123456789abcdef", "0.9.2"),
        ("docker.io/vllm/vllm-openai-cpu:v0.23.0", "0.23.0"),
        ("registry.example.com:5000/mirror/vllm-openai:v0.10.1.1", "0.10.1.1"),
        ("vllm/vllm-openai-rocm:v0.14.0", "0.14.0"),
        ("public.ecr.aws/example/vllm-cpu-release-repo:v0.11.0", "0.11.0"),
        ("registry.example.com/team/vllm:v0.11.0", "0.11.0"),
        # AMD names vLLM's number among others
        ("rocm/vllm:rocm7.0_vllm_0.11.1_20251103", "0.11.1"),
        ("rocm/vllm:rocm6.3.1_instinct_vllm0.8.3_20250410", "0.8.3"),
        # nothing that names a release
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai:nightly", None),
        ("vllm/vllm-openai", None),
        ("vllm/vllm-openai@sha256:0123456789abcdef", None),
        ("registry.example.com:5000/vllm-openai", None),
        ("$(IMAGE)", None),
        ("", None),
        # numbers, but somebody else's
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.3.2", None),
        ("registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.2.1", None),
        ("ghcr.io/llm-d/llm-d:v0.4.0", None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.4.0", None),
        ("lmcache/vllm-openai:v0.3.1", None),
        ("lmcache/vllm-openai:2025-05-05-v1", None),
        ("example/vllm-router:v0.11.0", None),
        ("example/vllm-openai:v0.6.1-edb07092-20250118", None),  # some commit's build
        ("example/vllm-openai:v0.6.1-20250118", "0.6.1"),
        ("example/vllm:v0.1.0", None),
        ("example/llm:v0.11.0", None),
    ],
)
def test_an_image_names_its_release_only_where_the_tag_is_vllms_own(image: str, expected: str | None) -> None:
    """A wrong release would refuse flags that the image knows, so a tag is trusted only where it must be vLLM's."""
    found = release.from_image(image)
    assert (str(found) if found else None) == expected


@given(st.text())
def test_any_image_is_read_without_an_error(image: str) -> None:
    """Whatever stands in `image`."""
    release.from_image(image)


def test_the_table_is_in_order() -> None:
    """Oldest first, each once."""
    known = release.known()
    assert list(known) == sorted(set(known))
    assert known[0] < Release(0, 5)
    assert known[-1] >= Release(0, 33)


@pytest.mark.parametrize(
    ("asked", "lower", "upper"),
    [
        (Release(0, 11, 2), "0.11.2", "0.11.2"),
        (Release(0, 8, 5), "0.8.5.post1", "0.8.5.post1"),  # a post release brings no flags
        (Release(0, 10, 1), "0.10.1.1", "0.10.1.1"),
        (Release(0, 8, 2), "0.8.0", "0.8.5.post1"),
        (Release(0, 3), None, "0.4.0.post1"),
    ],
)
def test_a_release_has_neighbours_in_the_table(asked: Release, lower: str | None, upper: str | None) -> None:
    """Itself twice, or the ones around it."""
    assert tuple(str(r) if r else None for r in release.neighbours(asked)) == (lower, upper)


def test_nothing_is_known_of_a_release_after_the_last() -> None:
    """Except of the last one's own patch releases."""
    newest = release.known()[-1]
    assert release.neighbours(Release(newest.major, newest.minor + 1)) == (newest, None)
    assert release.neighbours(Release(newest.major, newest.minor, newest.patch + 1)) == (newest, newest)


@pytest.mark.parametrize(
    ("image", "official"),
    [
        ("vllm/vllm-openai:v0.21.0", True),
        ("docker.io/vllm/vllm-openai:v0.21.0@sha256:0123", True),
        ("registry.example.com:5000/mirror/vllm/vllm-openai:v0.21.0", True),
        ("vllm/vllm-openai-rocm:v0.21.0", True),
        ("someone/vllm-openai:v0.21.0", False),
        ("vllm/vllm-omni:v0.21.0", False),
        ("vllm/vllm-openai:v0.21.0-cu129", True),
        ("vllm/vllm-openai:v0.21.0rc1", False),
        ("registry.example.com/vllm/vllm-openai:v0.21.0-ours", False),
        ("registry.example.com/ml/vllm:v0.21.0", False),
    ],
)
def test_only_vllms_own_image_and_its_mirrors_are_official(image: str, official: bool) -> None:
    assert is_official(image) is official
