"""The memory that containers use, read from a Prometheus: instant queries of its HTTP API, nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from podfit import __version__
from podfit.cluster.configuration import in_words
from podfit.evaluation.scan.drift import TOKENS, Used
from podfit.evaluation.scan.planned import STEADY, USED
from podfit.kube.path import mapping

MI = 1 << 20
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
_MOST = 64 << 20


class PrometheusError(Exception):
    """It does not answer, or answers with an error; one line for people."""


class Prometheus:
    """One server. `token`: a bearer token, where it wants one."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"User-Agent": f"podfit/{__version__}", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(1, retries=urllib3.Retry(2, redirect=False))

    def used(self) -> Iterator[Used]:
        """Everything that Pods use now; raises PrometheusError."""
        for labels, value in self._query(HOST):
            if "pod" in labels:
                yield Used(*_pod(labels), labels.get("container"), "host", STEADY, int(value), "container_memory_*")
        for labels, value in self._query(GPU):
            if "pod" in labels:
                yield Used(*_pod(labels), None, "gpu", USED, int(value * MI), "DCGM_FI_DEV_FB_USED")
        engines: dict[tuple[str, str], list[Mapping[str, str]]] = {}
        for labels, _ in self._query(CACHE):
            engines.setdefault(_pod(labels), []).append(labels)
        for (namespace, pod), items in engines.items():
            if tokens := _tokens(items):
                yield Used(namespace, pod, None, "gpu", TOKENS, tokens, "vllm:cache_config_info")

    def _query(self, query: str) -> list[tuple[Mapping[str, str], float]]:
        """The (labels, value) of each sample of a query; raises PrometheusError."""
        try:
            answer = self._pool.request(
                "POST", f"{self._url}/api/v1/query", fields={"query": query}, encode_multipart=False,
                headers=self._headers, timeout=urllib3.Timeout(connect=5.0, read=60.0), preload_content=False,
            )  # fmt: skip
            body = answer.read(_MOST)
            answer.release_conn()
            value: Any = json.loads(body)
        except (HTTPError, OSError) as error:
            raise PrometheusError(f"{self._url}: {in_words(error)}") from error
        except ValueError as error:
            raise PrometheusError(f"{self._url}: no Prometheus answers there (HTTP {answer.status})") from error
        if mapping(value).get("status") != "success":
            raise PrometheusError(f"{self._url}: {mapping(value).get('error') or f'HTTP {answer.status}'}")
        return list(_samples(value["data"]["result"]))


def _samples(result: list[dict[str, Any]]) -> Iterator[tuple[Mapping[str, str], float]]:
    """Labels and value of each series that has a number: an exporter may say NaN, or a histogram."""
    for item in result:
        if "value" in item and math.isfinite(value := float(item["value"][1])):
            yield item["metric"], value


def _pod(labels: Mapping[str, str]) -> tuple[str, str]:
    """The namespace and name of the measured Pod. A scraper that keeps its own labels renames the exporter's to
    `exported_…`."""
    return (labels.get("exported_namespace") or labels.get("namespace", ""),
            labels.get("exported_pod") or labels.get("pod", ""))  # fmt: skip


def _tokens(engines: list[Mapping[str, str]]) -> int | None:
    """ "GPU KV cache size" of one engine. Since 0.24 the label `kv_cache_size_tokens`, before that blocks times their
    size, which is too much for models with several groups of layers. The blocks are those of all engines together
    (v1/engine/core_client.py)."""
    sizes = [size for engine in engines if (size := _number(engine.get("kv_cache_size_tokens")))]
    if sizes:
        return min(sizes)
    blocks = [(_number(engine.get("num_gpu_blocks")), _number(engine.get("block_size"))) for engine in engines]
    items = [count * size for count, size in blocks if count and size]
    return min(items) // len(engines) if items else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
