"""vLLM releases: their numbers, their order, and the image tags that name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.base import data
from podfit.vllm import release
from podfit.vllm.release import Release, is_official


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
    """A candidate counts as the release that it leads to; any other text is None."""
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
        ("vllm/vllm-openai:v0.11.0-aarch64", "0.11.0"),
        ("vllm/vllm-openai:v0.10.1.1-x86_64", "0.10.1.1"),
        ("vllm/vllm-openai:v0.8.5.post1-cu126", "0.8.5.post1"),
        ("vllm/vllm-openai:v0.20.0-cu129-ubuntu2404", "0.20.0"),
        ("vllm/vllm-openai-xpu:v0.26.0", "0.26.0"),
        ("vllm/vllm-tpu:v0.12.0", "0.12.0"),
        ("us-docker.pkg.dev/example/mirror/vllm/vllm-openai:v0.21.0", "0.21.0"),
        ("aibrix/vllm-openai:v0.10.2-aibrix-v0.5.0-nixl-0.7.1-20251123", "0.10.2"),
        ("aibrix/vllm-openai:v0.9.2-cu128-nixl-v0.4.1-lmcache-0.3.1.post1", "0.9.2"),
        ("public.ecr.aws/deep-learning-containers/vllm:0.11.0-gpu-py312-cu128-ubuntu22.04-ec2", "0.11.0"),
        # AMD names vLLM's number among others
        ("rocm/vllm:rocm6.4.1_vllm_0.10.1", "0.10.1"),
        ("rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909", "0.10.1"),
        ("rocm/vllm:rocm7.14.1_rdna_ubuntu24.04_py3.14_pytorch_2.11_vllm_0.23.0", "0.23.0"),
        ("rocm/vllm:rocm6.2_mi300_ubuntu20.04_py3.9_vllm_0.6.4", "0.6.4"),
        ("rocm/vllm:rocm7.0_vllm_0.11.1_20251103", "0.11.1"),
        ("rocm/vllm:rocm6.3.1_instinct_vllm0.8.3_20250410", "0.8.3"),
        # nothing that names a release
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai:nightly", None),
        ("vllm/vllm-openai:nightly-0d4044edd85de30d7d4558aeea4d1e95c7c556d6", None),
        ("vllm/vllm-openai:nightly-aarch64", None),
        ("vllm/vllm-openai:latest-cu130", None),
        ("vllm/vllm-openai:gptoss", None),
        ("vllm/vllm-openai:v0.11", None),
        ("rocm/vllm:latest", None),
        ("rocm/vllm-dev:nightly_main_20251103", None),
        ("example/vllm-openai:kvcache-v0.8.5-20250520", None),
        ("vllm/vllm-openai", None),
        ("vllm/vllm-openai@sha256:0123456789abcdef", None),
        ("registry.example.com:5000/vllm-openai", None),
        ("$(IMAGE)", None),
        ("", None),
        # numbers, but another project's
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
        ("nvcr.io/nvidia/vllm:26.08-py3", None),
        ("registry.redhat.io/rhaii/vllm-cuda-rhel9:3.4.0-1776326705", None),
        ("registry.example.com/rhaiis/vllm-cuda-rhel9:3.2.1", None),
        ("quay.io/modh/vllm:rhoai-2.22-cuda-5e9c649953464aa3a668aba1774e42fc933f721b", None),
        ("opea/vllm-gaudi:1.4", None),
        ("vllm/vllm-omni:v0.20.0", None),
        ("quay.io/modh/vllm:rhoai-2.25-cuda", None),
        ("quay.io/opendatahub/vllm:fast", None),
        ("registry.redhat.io/rhoai/odh-vllm-cuda-rhel9:v2.25.0-1759340926", None),
        ("registry.redhat.io/rhaii-early-access/vllm-cuda-rhel9:3.4.0-ea.1", None),
        ("registry.redhat.io/rhaiis/vllm-tpu-rhel9:3.2.5", None),
        ("763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:server-cuda-v1", None),
        ("763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:server-cuda-v1.2.0", None),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.33.0-lmi15.0.0-cu128", None),
        ("public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.29.0.1.2.0-neuronx-py314-sdk2.33.0-ubuntu26.04", None),
        ("vault.habana.ai/gaudi-docker/1.22.0/ubuntu22.04/habanalabs/vllm-installer-2.7.1:latest", None),
        ("opea/vllm-arc:1.3", None),
        ("us-docker.pkg.dev/vertex-ai/vertex-vision-model-garden-dockers/pytorch-vllm-serve:20250116_0916_RC00", None),
        ("ghcr.io/nvidia-ai-iot/vllm:latest-jetson-orin", None),
        ("ghcr.io/nvidia-ai-iot/vllm:0.16.0-g15d76f74e-r38.2-arm64-sbsa-cu130-24.04", None),
        ("ghcr.io/llm-d/llm-d-uds-tokenizer:v0.9.0", None),
        ("ghcr.io/vllm-project/production-stack/router:v0.11.0", None),
        ("ghcr.io/vllm-project/semantic-router/vllm-sr:v0.5.0", None),
        # programs that have vLLM in their names
        ("example/vllm-chat:0.5.0", None),
        ("example/whisper-vllm-asr:v0.6.1", None),
        ("example/vllm-inference:0.8.3", None),
        ("example/vllm-server:v0.5.5", None),
        ("example/vllm-playground:0.10.0", None),
        ("example/my-vllm:0.4.0", None),
        # a build of some commit
        ("vllm/vllm-openai:v0.11.0-dev", None),
        ("rocm/vllm:v0.14.0_amd_dev", None),
        ("rocm/vllm-dev:nightly_0624_rc2_0624_rc2_20250620", None),
        ("rocm/vllm:rocm7.0.2_vllm_0.11.2.dev673_g839868462_20251210", None),
        ("example/vllm-openai:0.11.0-nightly", None),
        ("example/vllm-openai:v0.20.0-main", None),
        ("example/vllm-openai:v0.20.0-pr12345", None),
        ("example/vllm-openai:v0.20.0-preview.2", None),
        ("example/vllm-openai:v0.11.1rc0", None),
        ("example/vllm-openai:v0.11.1.dev5", None),
        ("quay.io/ascend/vllm-ascend:v0.9.1-dev", None),
        ("vllm/vllm-openai:nightly-cu130", None),
        ("vllm/vllm-openai:deepseekv4-cu130", None),
        ("vllm/vllm-openai:gemma4-0505-cu129", None),
        ("vllm/vllm-openai:v0.20", None),
        ("vllm/vllm-openai:20250901", None),
        # more builds of vLLM under its own numbers
        ("vllm/vllm-openai:v0.34.0", "0.34.0"),
        ("vllm/vllm-openai:v0.40.1-cu140-ubuntu2604", "0.40.1"),
        ("mirror.example.com/vllm/vllm-openai:v1.0.0", "1.0.0"),
        ("example/vllm-openai:1.4.0", None),
        ("vllm/vllm-openai:v0.20.0-x86_64-cu129-ubuntu2404", "0.20.0"),
        ("vllm/vllm-openai:v0.19.1-aarch64-cu130", "0.19.1"),
        ("vllm/vllm-openai-cpu:v0.20.0-arm64", "0.20.0"),
        ("vllm/vllm-openai-rocm:v0.18.0-rocm700", "0.18.0"),
        ("public.ecr.aws/example/vllm-arm64-cpu-release-repo:v0.19.0", "0.19.0"),
        ("harbor.example.com:8443/proxy/docker.io/vllm/vllm-openai:v0.18.1@sha256:0123456789abcdef", "0.18.1"),
        ("123456789012.dkr.ecr.eu-central-1.amazonaws.com/ml/mirror/vllm-openai:v0.21.0", "0.21.0"),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.11.2-gpu-py312", "0.11.2"),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.11-gpu-py312", None),
        ("example/llmd-vllm-openai:v0.23.0", "0.23.0"),
        ("aibrix/vllm-openai-aibrix-kvcache:v0.10.2-20251022", "0.10.2"),
        ("aibrix/vllm-openai:v0.7.3.self.post1", None),
        ("example/vllm-gh200-openai:v0.6.4.post1", None),
        ("intel/vllm:0.21.0-xpu", "0.21.0"),
        ("intel/llm-scaler-vllm:0.14.0-b8", "0.14.0"),
        ("intel/llm-scaler-vllm:1.5", "0.26.0"),
        ("opea/vllm-hpu:0.8.5-Gaudi1.21.3", "0.8.5"),
        ("gpustack/runner:cuda12.8-vllm0.11.0", "0.11.0"),
        ("rocm/vllm:rocm7.0.0_vllm_0.11.2_20251210", "0.11.2"),
        ("rocm/7.0:rocm7.0_ubuntu_22.04_vllm_0.10.1_instinct_20250927_rc1", "0.10.1"),
        ("quay.io/vllm/vllm-cuda:0.11.0.1", "0.11.0.1"),
        ("lmcache/vllm-openai:v0.3.9post2", None),
        ("lmcache/vllm-openai:nightly-2025-10-01", None),
        # … who say what is in them
        ("kserve/huggingfaceserver:v0.15.0-gpu", "0.8.1"),
        ("kserve/huggingfaceserver:v0.15.0-rc1-gpu", None),
        ("mirror.example.com/kserve/huggingfaceserver:v0.17.0", "0.15.1"),
        ("kserve/huggingfaceserver:latest-gpu", None),
        ("quay.io/ascend/vllm-ascend:v0.11.0rc1-a3", "0.11.0"),
        ("quay.io/ascend/vllm-ascend:v0.14.0rc1-openeuler", "0.14.1"),
        ("quay.io/ascend/vllm-ascend:v0.18.0", "0.18.0"),
        ("ghcr.io/llm-d/llm-d-cuda:v0.7.0", "0.19.1"),
        ("nvcr.io/nvidia/vllm:26.01-post1-py3", "0.11.1"),
        ("nvcr.io/nvidia/vllm:25.11-py3", None),
        ("nvcr.io/nvidia/vllm:25.10-py3", "0.10.2"),
        ("registry.example.com/nvidia/vllm:26.05-py3", "0.20.1"),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.1", "0.12.0"),
        ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", "0.26.0"),
        ("registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.0.0-1747077792", "0.8.4"),
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
    """With a wrong release podfit would deny flags that the image knows: a tag is trusted only if it must be vLLM's."""
    found = release.from_image(image)
    assert (str(found) if found else None) == expected


@given(st.text())
def test_any_image_is_read_without_an_error(image: str) -> None:
    """Whatever `image` contains."""
    release.from_image(image)


def test_the_table_is_in_order() -> None:
    """Oldest first, each once."""
    known = release.known_releases()
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
    """Its own patch releases may add flags, too."""
    newest = release.known_releases()[-1]
    assert release.neighbours(Release(newest.major, newest.minor + 1)) == (newest, None)
    assert release.neighbours(Release(newest.major, newest.minor, newest.patch + 1)) == (newest, None)


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


@pytest.mark.parametrize(
    ("image", "cuda", "with_cuda_12"),
    [
        ("vllm/vllm-openai:v0.19.1", 12, None),
        ("vllm/vllm-openai:v0.19.1-cu130", 13, None),
        ("vllm/vllm-openai:v0.20.0", 13, "vllm/vllm-openai:v0.20.0-cu129"),
        ("vllm/vllm-openai:v0.27.1-x86_64-cu129-ubuntu2404", 12, "vllm/vllm-openai:v0.27.1-cu129"),
        ("registry.acme.org:5000/vllm/vllm-openai:v0.31.0-ubuntu2404", 13,
         "registry.acme.org:5000/vllm/vllm-openai:v0.31.0-cu129"),
        ("vllm/vllm-openai:v0.33.0@sha256:" + "0" * 64, 13, None),
        ("vllm/vllm-openai:v0.99.0", None, None),
        ("vllm/vllm-openai:latest", None, None),
        ("vllm/vllm-openai:nightly-cu129", None, None),
        ("vllm/vllm-openai-rocm:v0.27.1", None, None),
        ("acme/vllm:v0.27.1", None, None),
    ],
)  # fmt: skip
def test_the_tag_of_vllms_own_image_shows_its_cuda(image: str, cuda: int | None, with_cuda_12: str | None) -> None:
    assert release.cuda_of_image(image) == cuda
    assert release.with_cuda_12(image) == with_cuda_12


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("acme/vllm-openai:v0.6.1-edb07092-20250118", Release(0, 6, 1)),
        ("lmcache/vllm-openai:2025-03-10", Release(0, 7, 3)),
        ("acme/server:20260501", Release(0, 20)),
        ("acme/server:20200501", None),
        ("acme/server:prod", None),
        ("acme/20250101:prod", None),
        ("vllm/vllm-openai:latest", None),
        ("acme/vllm@sha256:20250118", None),
    ],
)
def test_a_commit_or_a_day_in_a_tag_is_near_a_release(image: str, expected: Release | None) -> None:
    assert release.near(image) == expected


@given(st.text(max_size=80))
def test_any_text_is_near_a_release_or_none(image: str) -> None:
    found = release.near(image)
    assert found is None or isinstance(found, Release)


def test_every_release_that_a_vendor_names_has_its_source() -> None:
    """So that others can look it up."""
    rows = data.load("releases")["images"]
    assert len({row["image"] for row in rows}) == len(rows)
    for row in rows:
        assert row["source"].startswith("https://")
        assert release.parse(row["release"]) is not None


def test_the_first_pattern_that_fits_an_image_counts() -> None:
    """The digest is not part of the pattern."""
    images = (("a/b:stable*", Release(0, 20)), ("a/*", Release(0, 21)))
    assert release.release_of_image("a/b:stable-1@sha256:00", images) == Release(0, 20)
    assert release.release_of_image("a/c@sha256:00", images) == Release(0, 21)
    assert release.release_of_image("b/c", images) is None


NEWEST = release.newest_read()


@pytest.mark.parametrize(
    ("found", "read"),
    [
        (Release(0, 4, 0, 1), True),
        (NEWEST, True),
        (NEWEST._replace(patch=7), True),
        (NEWEST._replace(minor=NEWEST.minor + 1, patch=0), False),
        (Release(0, 99), False),
    ],
    ids=str,
)
def test_a_patch_of_a_minor_release_that_was_read_counts_as_read(found: Release, read: bool) -> None:
    assert release.is_read(found) is read
    newer = f"vLLM {found} is newer than podfit's facts ({release.newest_read()})"
    assert release.newer_than_read(found) == (None if read else newer)


def test_an_unknown_release_is_not_newer_than_what_was_read() -> None:
    assert release.newer_than_read(None) is None


def test_the_newest_extract_was_read() -> None:
    assert release.newest_read() == release.known_releases()[-1]
