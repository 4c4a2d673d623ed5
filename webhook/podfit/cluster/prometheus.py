"""The memory that containers use, read from a Prometheus: instant queries of its HTTP API, nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import urllib3
from urllib3.exceptions import HTTPError

from podfit import __version__
from podfit.cluster.configuration import in_words
from podfit.evaluation.scan.drift import TOKENS, Used
from podfit.evaluation.scan.planned import STEADY, USED
from podfit.kube.path import mapping

MI = 1 << 20
"""Bytes of a MiB."""
HOST = (
    'max by (namespace, pod, container) (container_memory_usage_bytes{container!="", container!="POD"})'
    " - max by (namespace, pod, container) (container_memory_total_active_file_bytes)"
    " - max by (namespace, pod, container) (container_memory_total_inactive_file_bytes)"
)
"""Unreclaimable host memory, as charts/podfit/monitoring/alerts.yaml has it."""
GPU = "max by (namespace, pod) (DCGM_FI_DEV_FB_USED)"
"""MiB of the fullest GPU of a Pod (NVIDIA's DCGM exporter)."""
CACHE = '{__name__="vllm:cache_config_info"}'
"""One series an engine, whose labels are its CacheConfig (vLLM 0.33 v1/metrics/loggers.py); since 0.6."""
MEASURED_KEYS = frozenset((f"host/{STEADY}", f"gpu/{USED}", f"gpu/{TOKENS}"))
"""The values that Prometheus can have: plane/line."""
MAX_ANSWER_BYTES = 64 << 20
"""Bytes of an answer that are read: the limit for an answer of the API server (`access.MAX_ANSWER_BYTES`)."""
CONNECT_TIMEOUT, READ_TIMEOUT = 5.0, 60.0
"""Seconds. A choice: a query over all containers takes longer than a request to an API server."""
RETRIES = 2
"""Attempts after the first one, for a connection that breaks."""


class _Sample(NamedTuple):
    """One series of an instant query."""

    labels: Mapping[str, str]
    value: float
    """Finite; the unit is that of the query."""


class PrometheusError(Exception):
    """It does not answer, or answers with an error; one line for people."""


class Prometheus:
    """One server. `token`: its bearer token; None, or empty: requests have no Authorization header."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"User-Agent": f"podfit/{__version__}", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(1, retries=urllib3.Retry(RETRIES, redirect=False))

    def used(self) -> Iterator[Used]:
        """Everything that Pods use now: bytes of host memory per container, bytes of GPU memory per Pod, and tokens of
        the KV cache per Pod. Series without a Pod are left out. Raises PrometheusError."""
        for sample in self._query(HOST):
            if "pod" in sample.labels:
                namespace, pod = _pod(sample.labels)
                container = sample.labels.get("container")
                yield Used(namespace, pod, container, "host", STEADY, int(sample.value), "container_memory_*")
        for sample in self._query(GPU):
            if "pod" in sample.labels:
                namespace, pod = _pod(sample.labels)
                yield Used(namespace, pod, None, "gpu", USED, int(sample.value * MI), "DCGM_FI_DEV_FB_USED")
        engines: dict[tuple[str, str], list[Mapping[str, str]]] = {}  # a Pod → the labels of each of its engines
        for sample in self._query(CACHE):
            engines.setdefault(_pod(sample.labels), []).append(sample.labels)
        for (namespace, pod), labels_of_engines in engines.items():
            if tokens := _tokens(labels_of_engines):
                yield Used(namespace, pod, None, "gpu", TOKENS, tokens, "vllm:cache_config_info")

    def _query(self, query: str) -> list[_Sample]:
        """The samples of a query (PromQL); raises PrometheusError."""
        try:
            answer = self._pool.request(
                "POST", f"{self._url}/api/v1/query", fields={"query": query}, encode_multipart=False,
                headers=self._headers, timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=READ_TIMEOUT),
                preload_content=False,
            )  # fmt: skip
            body = answer.read(MAX_ANSWER_BYTES)
            answer.release_conn()
            value: Any = json.loads(body)
        except (HTTPError, OSError) as error:
            raise PrometheusError(f"{self._url}: {in_words(error)}") from error
        except ValueError as error:  # not JSON, so `answer` is set
            raise PrometheusError(f"{self._url}: no Prometheus answers there (HTTP {answer.status})") from error
        if mapping(value).get("status") != "success":
            raise PrometheusError(f"{self._url}: {mapping(value).get('error') or f'HTTP {answer.status}'}")
        return list(_samples(value["data"]["result"]))


def _samples(result: list[dict[str, Any]]) -> Iterator[_Sample]:
    """The series of an answer that have a finite number: an exporter may write NaN, and a histogram has no `value`.

    `value` is [Unix time, number as text]."""
    for series in result:
        if "value" not in series:
            continue
        value = float(series["value"][1])
        if math.isfinite(value):
            yield _Sample(series["metric"], value)


def _pod(labels: Mapping[str, str]) -> tuple[str, str]:
    """The namespace and name of the measured Pod. A scraper that keeps its own labels renames the exporter's to
    `exported_…`."""
    return (labels.get("exported_namespace") or labels.get("namespace", ""),
            labels.get("exported_pod") or labels.get("pod", ""))  # fmt: skip


def _tokens(engines: list[Mapping[str, str]]) -> int | None:
    """ "GPU KV cache size" in tokens of the smallest engine of a Pod; None if the labels do not have it. `engines`: the
    labels of each engine.

    Since 0.24 that is the label `kv_cache_size_tokens`. Before that it is blocks times their size, which is too much
    for models with several groups of layers. The blocks are those of all engines together
    (v1/engine/core_client.py)."""
    sizes = [_number(engine, "kv_cache_size_tokens") for engine in engines]
    known_sizes = [size for size in sizes if size]
    if known_sizes:
        return min(known_sizes)
    products = [_number(engine, "num_gpu_blocks") * _number(engine, "block_size") for engine in engines]
    tokens_of_all = [product for product in products if product]
    return min(tokens_of_all) // len(engines) if tokens_of_all else None


def _number(labels: Mapping[str, str], label: str) -> int:
    """The value of a label; 0 if it is absent or not a number, as "None" is not."""
    text = labels.get(label, "")
    return int(text) if text.isdecimal() else 0
