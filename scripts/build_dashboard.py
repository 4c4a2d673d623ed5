"""The Grafana dashboard: both memory planes of every vLLM Pod, its queue, its start, and podfit's answers.

`make docs` writes charts/podfit/monitoring/dashboard.json. The series are those of alerts.yaml next to it, which says
where each comes from; what is recorded there (`podfit:…`) needs those rules.
"""

from __future__ import annotations

import json

from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

UID = "podfit-vllm"
SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
POD = 'namespace=~"$namespace", pod=~"$pod"'
CONTAINER = f'{POD}, container!=""'
NAMESPACE = 'namespace=~"$namespace"'
HEIGHT, WIDTH = 7, 8

ROWS: dict[str, list[tuple[str, str, str, dict[str, str]]]] = {
    "GPU memory": [
        (
            "KV cache in use",
            "percentunit",
            "vLLM takes the pool at start: full means waiting and preemption, not CUDA out of memory.",
            {"{{pod}} {{model_name}}": f"podfit:vllm_kv_cache_usage:ratio{{{POD}}}"},
        ),
        (
            "Preemptions a second",
            "reqps",
            "Requests that had to give up their KV cache and are computed again.",
            {"{{pod}}": f'sum by (pod) (rate({{__name__="vllm:num_preemptions_total", {POD}}}[5m]))'},
        ),
        (
            "Memory of the GPU",
            "mbytes",
            "Used and free, from DCGM. A constant line near the top is how vLLM works.",
            {
                "used {{pod}} GPU {{gpu}}": f"max by (pod, gpu) (DCGM_FI_DEV_FB_USED{{{POD}}})",
                "free {{pod}} GPU {{gpu}}": f"min by (pod, gpu) (DCGM_FI_DEV_FB_FREE{{{POD}}})",
            },
        ),
    ],
    "Planned and used": [
        (
            "GPU memory, planned and used",
            "bytes",
            "Of the fullest GPU of a Pod, with the 95 % end of its plan. Needs podfit scan --serve.",
            {
                "used {{pod}}": f"podfit:vllm_workload_gpu_memory_used:bytes{{{POD}}}",
                "planned {{workload}}": "max by (namespace, workload) "
                f'(podfit_planned_bytes{{plane="gpu", line="used", {NAMESPACE}}})',
                "most planned {{workload}}": "max by (namespace, workload) "
                f'(podfit_planned_high_bytes{{plane="gpu", line="used", {NAMESPACE}}})',
            },
        ),
        (
            "Host memory, planned and used",
            "bytes",
            "Memory that can't be reclaimed, with the plan: steady, and the 95 % end of its peak.",
            {
                "used {{pod}} {{container}}": f"podfit:vllm_workload_memory_unreclaimable:bytes{{{POD}}}",
                "planned {{workload}} {{container}}": "max by (namespace, workload, container) "
                f'(podfit_planned_bytes{{plane="host", line="steady", {NAMESPACE}}})',
                "most planned {{workload}} {{container}}": "max by (namespace, workload, container) "
                f'(podfit_planned_high_bytes{{plane="host", line="peak", {NAMESPACE}}})',
            },
        ),
        (
            "Workloads by their worst finding",
            "short",
            "All vLLM workloads of the cluster, as the last scan evaluated them.",
            {"{{state}}": "max by (state) (podfit_scan_workloads)"},
        ),
    ],
    "Host memory": [
        (
            "Memory that can't be reclaimed, and the limit",
            "bytes",
            "Anonymous and shared memory. At the limit the kernel kills (OOMKilled).",
            {
                "{{pod}}": f"podfit:vllm_memory_unreclaimable:bytes{{{POD}}}",
                "limit {{pod}}": "max by (pod, container) (kube_pod_container_resource_limits"
                f'{{resource="memory", {POD}}}) and on (pod, container) podfit:vllm_container:info{{{POD}}}',
            },
        ),
        (
            "Working set (context only)",
            "bytes",
            "With the page cache of mmap'd weights in it: at the limit on healthy Pods, too.",
            {"{{pod}}": f"max by (pod) (container_memory_working_set_bytes{{{CONTAINER}}})"},
        ),
        (
            "Waiting for memory",
            "percentunit",
            "Share of time in which all of the container waits for memory (pressure stall information).",
            {"{{pod}}": f"max by (pod) (rate(container_pressure_memory_stalled_seconds_total{{{CONTAINER}}}[5m]))"},
        ),
    ],
    "Service": [
        (
            "Requests",
            "short",
            "Running and waiting. What waits is what an autoscaler should follow.",
            {
                "running {{pod}}": f'sum by (pod) ({{__name__="vllm:num_requests_running", {POD}}})',
                "waiting {{pod}}": f'sum by (pod) ({{__name__="vllm:num_requests_waiting", {POD}}})',
            },
        ),
        (
            "Time to first token",
            "s",
            "Half and 95 % of the requests are faster than this.",
            {
                f"{share} {{{{model_name}}}}": f"histogram_quantile({quantile}, sum by (model_name, le) "
                f'(rate({{__name__="vllm:time_to_first_token_seconds_bucket", {POD}}}[5m])))'
                for share, quantile in (("half", 0.5), ("95 %", 0.95))
            },
        ),
        (
            "Time between tokens",
            "s",
            "95 % are faster. vLLM 0.10.2 and newer have inter_token_latency, older ones time_per_output_token.",
            {
                "{{model_name}}": "histogram_quantile(0.95, sum by (model_name, le) (rate({__name__=~"
                f'"vllm:(inter_token_latency|time_per_output_token)_seconds_bucket", {POD}}}[5m])))'
            },
        ),
    ],
    "Start": [
        (
            "Restarts",
            "short",
            "In the last hour.",
            {"{{pod}} {{container}}": f"increase(kube_pod_container_status_restarts_total{{{POD}}}[1h])"},
        ),
        (
            "Why containers ended last",
            "short",
            "OOMKilled is host memory; CUDA out of memory ends as Error.",
            {
                "{{reason}} {{pod}}": "max by (pod, reason) "
                f"(kube_pod_container_status_last_terminated_reason{{{POD}}}) > 0"
            },
        ),
        (
            "Failed probes",
            "short",
            "In ten minutes. Failures of the startup probe are normal while vLLM loads.",
            {
                "{{probe_type}} {{pod}}": "sum by (pod, probe_type) "
                f'(increase(prober_probe_total{{result="failed", {POD}}}[10m]))'
            },
        ),
    ],
    "podfit": [
        (
            "Reviews",
            "reqps",
            "By decision; skipped are objects without vLLM.",
            {"{{decision}}": "sum by (decision) (rate(podfit_reviews_total[5m]))"},
        ),
        (
            "Findings",
            "reqps",
            "By rule and what followed.",
            {"{{rule}} {{mode}}": "sum by (rule, mode) (rate(podfit_findings_total[5m]))"},
        ),
        (
            "Denied if the policy enforced",
            "reqps",
            "Reviews that only enforce.mode kept from being denied.",
            {"{{namespace}}": 'sum by (namespace) (rate(podfit_would_deny_total{dry_run="false"}[5m]))'},
        ),
        (
            "Paused by podfit off",
            "short",
            "1 while a webhook is paused: then the API server sends nothing to podfit.",
            {"paused": "max(podfit_off)"},
        ),
        (
            "Exceptions in use",
            "reqps",
            "Findings that an exception of a policy, or an author's annotation, accepts.",
            {"{{rule}} {{by}}": 'sum by (rule, by) (rate(podfit_exempted_findings_total{dry_run="false"}[5m]))'},
        ),
        (
            "Time that the API server waited",
            "s",
            "99 % of the calls are faster, with network and TLS.",
            {
                "{{name}}": "histogram_quantile(0.99, sum by (name, le) (rate("
                'apiserver_admission_webhook_admission_duration_seconds_bucket{name=~".*podfit.*"}[5m])))'
            },
        ),
    ],
}
"""Row → panels: title, unit, what it shows, and legend → query."""


def panel(title: str, unit: str, says: str, queries: dict[str, str]) -> timeseries.Panel:
    """A time series."""
    made = timeseries.Panel().title(title).unit(unit).description(says).datasource(SOURCE).height(HEIGHT).span(WIDTH)
    for legend, query in queries.items():
        made.with_target(prometheus.Dataquery().expr(query).legend_format(legend).datasource(SOURCE))
    return made


def choice(name: str, label: str, query: str) -> dashboard.QueryVariable:
    """A variable that lists what there is."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def text() -> str:
    """The dashboard as JSON."""
    made = (
        dashboard.Dashboard("vLLM, GPU memory and host memory (podfit)")
        .uid(UID)
        .tags(["podfit", "vllm"])
        .refresh("1m")
        .time("now-6h", "now")
        .timezone("browser")
        .readonly()
        .with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
        .with_variable(choice("namespace", "Namespace", "label_values(podfit:vllm_container:info, namespace)"))
        .with_variable(choice("pod", "Pod", 'label_values(podfit:vllm_container:info{namespace=~"$namespace"}, pod)'))
    )
    for row, panels in ROWS.items():
        made.with_row(dashboard.Row(row))
        for one in panels:
            made.with_panel(panel(*one))
    return (
        json.dumps(json.loads(JSONEncoder().encode(made.build())), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )
