"""The one table of images: the command of an image if the container sets none.

An image is matched by its repository: registry and path without tag and digest, lower case. The first row wins.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.release import Release, named_within


class Image(NamedTuple):
    """One row of the table."""

    pattern: str
    """A regular expression to search for in the repository."""
    runs: str
    """"serve" (`vllm serve` + args), "module" (`python -m vllm.entrypoints.openai.api_server` + args), "huggingface"
    (KServe's huggingfaceserver + args), "command" (the args are the command), "other" (no vLLM server)."""
    source: str
    """Where the fact comes from."""


# fmt: off
KNOWN_IMAGES = (
    # Programs that only talk to vLLM, simulate it, or are another engine.
    Image(r"(^|[/_.-])(router|routing|gateway|epp|scheduler|sidecar|proxy|bench|benchmark|benchmarks|benchmarker|"
        r"guidellm|client|exporter|simulator|sim|mock|mocker|emulator|vllme|fake|stub|downloader|syncer|loader|puller|controller|"
        r"operator|dashboard|webui|frontend|planner|autoscaler|placeholder|renderer|render|tokenizer|monitor|"
        r"metrics|mcp|webhook|katan|optimizer|tuner|advisor|recommender|manager|portal|console|playground|collector|analyzer|ui|web|chatbot|streamlit|gradio|chainlit|locust|loadtest|tester|agent)([_.-][^/]*)?$",
        "other",
        "names of components in llm-d (vllme: an emulator), vLLM production-stack, AIBrix and vLLM semantic-router"),
    Image(r"sglang|text-generation-inference|text-embeddings-inference|(^|/)tgi\b|tritonserver|ollama|llama[._-]?cpp|"
        r"lmdeploy|tensorrt|trtllm|mlserver|torchserve|tensorflow|openvino/model_server|xinference|/nim/", "other",
        "other inference servers"),
    Image(r"(^|/)huggingfaceserver[^/]*$", "huggingface",
        "kserve/kserve python/huggingface_server.Dockerfile: ENTRYPOINT python -m huggingfaceserver"),
    # Images whose entrypoint runs its arguments.
    Image(r"(^|/)nvidia/vllm$", "command", "NGC vLLM: ENTRYPOINT /opt/nvidia/nvidia_entrypoint.sh"),
    Image(r"(^|/)rocm/vllm(-dev)?$", "command", "ROCm vLLM docs: docker run … rocm/vllm, a shell"),
    Image(r"(^|/)(ai-)?(dynamo[/-])?(ai-dynamo-)?vllm(_v1)?-runtime$", "command",
        "ai-dynamo/dynamo container/Dockerfile.vllm: ENTRYPOINT /opt/nvidia/nvidia_entrypoint.sh"),
    Image(r"(^|/)(ascend/)?vllm-ascend$", "command", "vllm-project/vllm-ascend Dockerfile: CMD /bin/bash"),
    Image(r"(^|/)(ray-llm|ray-ml|ray)$", "command", "rayproject images: a shell"),
    # vLLM servers.
    Image(r"(^|/)vllm-openai[^/]*$", "serve",
        'vllm-project/vllm docker/Dockerfile: ENTRYPOINT ["vllm", "serve"], the api_server module before; '
        "the same name at LMCache, AIBrix and private mirrors"),
    Image(r"(^|/)(vllm-omni|vllm-spyre|vllm-neuron)[^/]*$", "serve", "vLLM's own plug-in builds"),
    Image(r"(^|/)(llm-d(-dev|-cuda|-cpu|-xpu|-hpu|-rocm|-aws|-gke)*)$", "serve", "llm-d docker/Dockerfile.*"),
    Image(r"(^|/)(vllm-cpu[^/]*|vllm-(cpu-)?release-repo|vllm-cpu-release-repo)$", "serve",
        "vLLM docs, installation/cpu: public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo"),
    Image(r"(^|/)(deep-learning-containers|763104351884\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?)/vllm[^/]*$",
        "module", "AWS Deep Learning Containers (their account): the entrypoint appends args to "
        "vllm.entrypoints.openai.api_server"),
    Image(r"(^|/)(modh/(odh-)?vllm[^/]*|opendatahub/(odh-)?vllm[^/]*|rhaiis?(-[^/]*)?/vllm[^/]*|rhoai/[^/]*vllm[^/]*)$",
        "module", "Red Hat builds: python -m vllm.entrypoints.openai.api_server"),
    Image(r"(^|/)(opea/vllm[^/]*|vllm-(gaudi|hpu|fork)[^/]*|substratusai/vllm|kserve/vllmserver|vllmserver)$", "module",
        "OPEA comps/third_parties/vllm, HabanaAI/vllm-fork, substratusai/vllm-docker, kserve"),
)
# fmt: on
_LONGEST = 512
"""Characters of an image that are read; none is longer with its registry, tag and digest."""


def repository(image: str) -> str:
    """`Registry/path:tag@digest` → `registry/path`, lower case."""
    name = image[:_LONGEST].strip().partition("@")[0]
    head, slash, last = name.rpartition("/")
    return (head + slash + last.partition(":")[0]).lower()


def runs(image: str) -> str | None:
    """The table's value for `image`; None if the table does not have it."""
    return _runs(repository(image))


@lru_cache(256)
def _runs(name: str) -> str | None:
    """`runs` of a repository."""
    return next((row.runs for row in KNOWN_IMAGES if re.search(row.pattern, name)), None)


OMNI = "vLLM-Omni"
"""https://github.com/vllm-project/vllm-omni: `vllm serve MODEL --omni` starts a pipeline of stages instead of vLLM.
Each stage has its own model, GPUs and share of their memory, by a file that the manifest need not contain."""


def is_omni(image: str) -> bool:
    """True if the image is a build of vLLM-Omni."""
    return repository(image).rpartition("/")[2].startswith("vllm-omni")


def named_vllm(image: str) -> bool:
    """True if the image's own name (or its owner's) contains vLLM, regardless of the table."""
    name = repository(image)
    return "vllm" in name.rpartition("/")[2] or "/vllm/" in f"/{name}/"


_NUMBERED = regex(r"(?<!lmcache)/vllm-(?:openai|cpu)[\w-]*:v?0\.(\d{1,3})(?:\.(\d{1,3}))?")


def before_serve(image: str) -> bool:
    """True if the tag is of a release whose entrypoint may still be the module (vllm-openai up to 0.11.0). The module
    reads `--model` in every release. From 0.10 on it also accepts a positional model but still serves its default
    (`args.EngineArgs.unserved`). From 0.11.1 on `vllm serve` accepts both."""
    image = image[:_LONGEST]
    tag = _NUMBERED.search(image)
    if tag is None:
        within = named_within(image)
        return within is not None and within <= LAST_WITH_MODULE
    return (0, int(tag[1]), int(tag[2] or 0)) <= LAST_WITH_MODULE


SERVE, MODULE = "vllm serve", "vllm.entrypoints.openai.api_server"
"""The programs that vLLM's image starts: the second in older releases."""
LAST_WITH_MODULE = Release(0, 11, 0)
"""The last release whose image may still start the module (vLLM docker/Dockerfile)."""
