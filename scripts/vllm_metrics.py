"""Which releases of vLLM export what our alerts, dashboard and autoscalers use: tests/monitoring/vllm_metrics.json.

`python -m scripts.vllm_metrics FOLDER` reads unpacked wheels (FOLDER/0.33.0/vllm/…, made by `pip download --no-deps
vllm==0.33.0` and unzip) and writes {metric: {release: the file that defines it}}. A counter may be there without
the `_total` that prometheus_client adds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PATH = Path(__file__).parent.parent / "tests" / "monitoring" / "vllm_metrics.json"
FILES = ("v1/metrics/loggers.py", "engine/metrics.py")
"""Where they are defined: V1's, and V0's, which is gone in 0.12."""
METRICS = (
    "vllm:gpu_cache_usage_perc",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:time_to_first_token_seconds",
    "vllm:time_per_output_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:admission_rejections_total",
)


def exported(sources: Path) -> dict[str, dict[str, str]]:
    """Metric → release → file, for the releases that define it."""
    releases = sorted((one for one in sources.iterdir() if (one / "vllm").is_dir()), key=_order)
    return {
        metric: {one.name: file for one in releases if (file := _file(one / "vllm", metric)) is not None}
        for metric in METRICS
    }


def _file(package: Path, metric: str) -> str | None:
    names = (f'"{metric}"', f'"{metric.removesuffix("_total")}"')
    for file in FILES:
        if (package / file).is_file() and any(name in (package / file).read_text() for name in names):
            return file
    return None


def _order(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.split("."))


if __name__ == "__main__":
    PATH.write_text(json.dumps(exported(Path(sys.argv[1])), indent=1) + "\n")
