"""Causes in the container around vLLM: the image, its command, ports, and what the Pod names."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

CAUSES = (
    Cause(
        "port-in-use",
        "The port is taken already",
        "Two containers of a Pod (and all Pods with hostNetwork: true) share their ports: give one another --port.",
        (
            Signature(
                r"\[Errno 98\]|[Aa]ddress already in use|EADDRINUSE|Only one usage of each socket address",
                "errno 98; asyncio, uvicorn, torch.distributed's TCPStore",
                unless=r"[Rr]etrying|trying port|[Uu]sing port|is already in use, trying",
            ),
        ),
        ("port-taken",),
    ),
    Cause(
        "service-link-clash",
        "A Service named `vllm` sets VLLM_PORT to an address",
        "Kubernetes puts <SERVICE>_PORT into every Pod: rename the Service, or set enableServiceLinks: false.",
        (
            Signature(
                r"VLLM_PORT '[^']*' (?:appears to be a URI|must be a valid integer)",
                "vLLM envs.py get_vllm_port",
                "0.9–0.33",
            ),
            Signature(r"invalid literal for int\(\) with base 10: '(?:tcp|udp)://", "vLLM envs.py", "0.5–0.8"),
        ),
        ("service-link-clash",),
    ),
    Cause(
        "command-not-found",
        "The container's command does not exist",
        "`args` go to the image's entry point, `command` replaces it: name a program that is in the image.",
        (
            Signature(
                r"executable file not found in \$PATH|exec: \"[^\"]*\": (?:stat [^:]*: )?(?:no such file|"
                r"permission denied)|exec \S+: no such file or directory",
                "runc libcontainer; the kubelet's StartError",
            ),
            Signature(
                r"executable file not found in \$PATH|exec: \"[^\"]*\": |exec \S+: no such file or directory",
                "runc libcontainer; the kubelet's StartError",
                channel="status",
            ),
            Signature(
                r"executable file not found in \$PATH|exec: \"[^\"]*\": (?:stat|permission|no such)",
                "runc libcontainer; the kubelet's Failed event",
                channel="event",
            ),
            Signature(
                r"(?:bash|sh|dash|/bin/sh)\b.*: (?:line \d+: )?(?:\S*/)?(?:vllm|python\d*(?:\.\d+)?|serve)\S*: "
                r"(?:command )?not found|can't open file '[^']*'|No module named '?vllm'?$",
                "bash, dash, Python",
            ),
            Signature(
                r"(?:bash|sh|dash|/bin/sh)\b.*: (?:line \d+: )?\S+: (?:command )?not found",
                "bash, dash, of a command in the container's script",
                weak=True,
                unless=r"ninja|nvcc|FAILED: |flashinfer|triton|torch|build",
            ),
        ),
        ("entrypoint-repeated", "argument-string-not-split"),
    ),
    Cause(
        "wrong-architecture",
        "The image is built for another processor",
        "Needs an image for the node's architecture (arm64 on Grace), or a nodeSelector kubernetes.io/arch.",
        (
            Signature(r"exec format error", "Linux, errno 8"),
            Signature(r"exec format error", "Linux, errno 8, in the kubelet's words", channel="status"),
        ),
    ),
    Cause(
        "reference-missing",
        "A Secret, ConfigMap or key that the Pod names does not exist",
        "Create it in the Pod's namespace, or correct its name.",
        (
            Signature(
                r"^CreateContainerConfigError\b|(?:secret|configmap) \"[^\"]+\" not found|couldn't find key ",
                "kubelet",
                channel="status",
            ),
            Signature(
                r"(?:secret|configmap) \"[^\"]+\" not found|couldn't find key \S+ in (?:Secret|ConfigMap)|"
                r"references non-existent (?:secret|config) key",
                "kubelet pkg/kubelet/kubelet_pods.go, pkg/volume",
                channel="event",
            ),
        ),
    ),
    Cause(
        "engine-start-timeout",
        "vLLM itself stopped waiting for its engine",
        "Loading took longer than VLLM_ENGINE_READY_TIMEOUT_S (600 s): raise it, or load from a faster place.",
        (
            Signature(
                r"Timed out waiting for (?:new )?engine(?:s| core process)",
                "vLLM v1/engine/core_client.py",
                "0.9–0.33",
            ),
            Signature(
                r"RPC call to (?!execute_|sample_)\S+ timed out",
                "vLLM v1/executor/multiproc_executor.py",
                "0.6–0.33",
                weak=True,
            ),
            Signature(r"Engine iteration timed out", "vLLM engine/async_llm_engine.py", "0.4–0.10", weak=True),
        ),
        ("startup-window-too-short", "engine-ready-timeout-too-short"),
    ),
)
