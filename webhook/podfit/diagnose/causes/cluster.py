"""Causes in the cluster's treatment of a Pod: scheduling, image pulls, probes, eviction."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

_PULL = (
    r"ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull|ImageInspectError|"
    r"RegistryUnavailable|Failed to pull image|Back-off pulling image|Failed to apply default image tag"
)

CAUSES = (
    Cause(
        "probe-wrong-path",
        "The probe asks for a path that the server does not answer",
        "vLLM answers GET /health on its port, without an API key. Set the probe's httpGet.path to /health.",
        (
            Signature(
                r"^Unhealthy: .*probe failed: HTTP probe failed with statuscode: 40[1345]",
                "kubelet pkg/probe/http",
                channel="event",
            ),
            Signature(
                r"probe failed: HTTP probe failed with statuscode: 40[1345]",
                "kubelet's own log, Events as others print them",
                weak=True,
                any_level=True,
            ),
            Signature(
                r"\"GET /(?:[\w/-]*(?:health|healthz|livez|readyz|ready|live|liveness|readiness|startup|ping|"
                r"status))?/? "
                r"HTTP/1\.[01]\" 40[1345]",
                "uvicorn's access log, of requests that look like a probe's",
                weak=True,
                any_level=True,
                running=True,
            ),
        ),
        ("probe-wrong-path", "probe-wrong-port"),
        meanings=(
            (r"\b401\b", "401: the path wants the key of --api-key, which /health does not."),
            (r"\b405\b", "405: the path takes POST only."),
        ),
    ),
    Cause(
        "probe-killed",
        "The kubelet killed the container because its probe failed",
        "Needs a startupProbe whose failureThreshold × periodSeconds covers download, loading and "
        "compilation; a livenessProbe only counts from then on.",
        (
            Signature(
                r"failed startup probe",
                "kubelet pkg/kubelet/kuberuntime/kuberuntime_manager.go",
                channel="event",
                rules=("startup-window-too-short", "probe-wrong-port"),
            ),
            Signature(
                r"failed liveness probe|Container will be killed and recreated",
                "kubelet pkg/kubelet/kuberuntime/kuberuntime_manager.go",
                channel="event",
                rules=("liveness-probe-kills-startup", "startup-probe-missing", "probe-wrong-port"),
            ),
            Signature(
                r"^Unhealthy: (?:Startup|Liveness) probe failed",
                "kubelet pkg/kubelet/prober: with a container that was killed (137, 143)",
                channel="event",
                weak=True,
            ),
            Signature(
                r"failed (?:startup|liveness) probe, will be restarted",
                "kubelet's own log, Events as others print them",
                weak=True,
                any_level=True,
            ),
            Signature(
                r"received signal=SIGTERM|Shutting down|Gracefully stopping|KeyboardInterrupt: terminated",
                "vLLM: SIGTERM while it starts, as long after the start as the manifest's probe waits",
                "0.6–0.33",
                channel="shutdown",
                weak=True,
            ),
            Signature(
                r"KeyboardInterrupt: terminated",
                "vLLM entrypoints/openai/api_server.py: SIGTERM while it starts",
                "0.6–0.33",
                weak=True,
            ),
        ),
        (
            "startup-window-too-short",
            "startup-probe-missing",
            "liveness-probe-kills-startup",
            "probe-wrong-port",
            "initial-delay-instead-of-startup-probe",
        ),
    ),
    Cause(
        "unschedulable",
        "No node takes the Pod",
        "The scheduler counts the nodes by reason. Reasons are too few GPUs on one node, a taint without toleration, a "
        "nodeSelector that no node has, a claim that is not bound.",
        (
            Signature(
                r"nodes are available|^FailedScheduling: |^NotTriggerScaleUp: |didn't trigger scale-up|"
                r"^Unschedulable: |incompatible with (?:nodepool|provisioner)|insufficient (?:unused )?quota for .*gpu",
                "kube-scheduler, cluster-autoscaler, Karpenter, Volcano, Kueue",
                channel="event",
            ),
            Signature(
                r"nodes are available|^Unschedulable\b|^SchedulingGated\b",
                "the Pod's PodScheduled condition",
                channel="status",
            ),
            Signature(r"\d+/\d+ nodes are available: ", "Events as others print them", weak=True, any_level=True),
        ),
        ("gpu-missing", "gpu-count-mismatch", "no-gpu-toleration", "no-node-matches", "machine-type-too-small"),
    ),
    Cause(
        "image-pull",
        "The image can't be pulled",
        "Check the image's name and tag, imagePullSecrets, and that it has a variant for the node's architecture.",
        (
            Signature(_PULL, "kubelet pkg/kubelet/images", channel="event"),
            Signature(_PULL, "kubelet pkg/kubelet/images", channel="status"),
            Signature(
                r"Failed to pull image|Back-off pulling image|\bErrImagePull\b|\bImagePullBackOff\b",
                "Events as others print them",
                weak=True,
                any_level=True,
            ),
        ),
        ("unpinned-image",),
    ),
    Cause(
        "driver-libraries-shadowed",
        "The container's libcuda is not that of the node's driver",
        "Another libcuda comes first: the image's CUDA compatibility libraries (/usr/local/cuda/compat), or a folder "
        "in "
        "LD_LIBRARY_PATH. Take it out of LD_LIBRARY_PATH, or use an image for this driver's CUDA. After an upgrade of "
        "the "
        "node's driver, restart the node.",
        (
            Signature(
                r"unsupported display driver / cuda driver combination|Error 803\b|"
                r"Failed to initialize NVML: Driver/library version mismatch|NVMLError_LibRmVersionMismatch",
                "CUDA runtime API, cudaErrorSystemDriverMismatch (803); NVML",
            ),
            Signature(
                r"unsupported display driver / cuda driver combination|Error 803\b",
                "PyTorch torch/cuda/__init__.py, a warning before the failure",
                weak=True,
                any_level=True,
            ),
        ),
        ("invalid-environment",),
    ),
    Cause(
        "driver-too-old",
        "The node's GPU driver is too old for the image's CUDA",
        "Needs a newer driver on the node, or an image with an older CUDA.",
        (
            Signature(
                r"NVIDIA driver on your system is too old|driver version is insufficient for CUDA runtime|"
                r"PTX was compiled with an unsupported toolchain|Error 804\b|"
                r"forward compatibility was attempted on non supported HW|unsatisfied condition: cuda",  # style: quoted
                "PyTorch torch/cuda/__init__.py; CUDA runtime API (804); nvidia-container-cli",
            ),
            Signature(
                r"NVIDIA driver on your system is too old|driver version is insufficient for CUDA runtime|Error 804\b",
                "PyTorch torch/cuda/__init__.py, a warning before the failure",
                weak=True,
                any_level=True,
            ),
            Signature(
                r"unsatisfied condition: cuda",
                "nvidia-container-cli",
                channel="status",
            ),
            Signature(
                r"unsatisfied condition: cuda",
                "nvidia-container-cli",
                channel="event",
            ),
        ),
        ("driver-too-old-for-image",),
    ),
    Cause(
        "gpu-fabric-not-ready",
        "The node's NVLink fabric is not ready",
        "On machines with NVSwitch (HGX, DGX), nvidia-fabricmanager must run on the node, in the driver's version. See "
        "`nvidia-smi -q -i 0 | grep -A 3 Fabric` there.",
        (
            Signature(
                r"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|Error 802\b",
                "CUDA runtime API, cudaErrorSystemNotReady (802)",
            ),
            Signature(
                r"Error 802\b",
                "PyTorch torch/cuda/__init__.py, a warning before the failure",
                weak=True,
                any_level=True,
            ),
        ),
    ),
    Cause(
        "runtime-failed",
        "The node's NVIDIA runtime could not prepare the container",
        "The message is nvidia-container-cli's. Restart the device plugin on the node, and create the Pod again.",
        (
            Signature(
                r"nvidia-container-cli(?:\.real)?: \w+ error|failed to get device: .*nvml",
                "nvidia-container-cli",
                channel="status",
            ),
            Signature(r"nvidia-container-cli(?:\.real)?: \w+ error", "nvidia-container-cli", channel="event"),
            Signature(
                r"nvidia-container-cli(?:\.real)?: (?:device|detection|mount|requirement|initialization|ldcache) error",
                "nvidia-container-cli, as docker and the kubelet's log print it",
                unless=r"unsatisfied condition|load library failed|driver not loaded",
            ),
        ),
    ),
    Cause(
        "quota-exceeded",
        "The namespace's quota is used up",
        "The event names quota, request and limit.",
        (
            Signature(
                r"exceeded quota|forbidden: .*quota|maximum .* usage per (?:Container|Pod) is",
                "kube-apiserver resourcequota, limitranger",
                channel="event",
            ),
        ),
    ),
    Cause(
        "admission-denied",
        "The API server rejects the Pod",
        "The event has the message of the webhook or of Pod security.",
        (
            Signature(
                r"^Failed\w*: .*(?:admission webhook .* denied the request|violates PodSecurity|is forbidden)",
                "kube-apiserver admission",
                channel="event",
            ),
        ),
    ),
    Cause(
        "devices-unavailable",
        "The node promised a GPU that it can't give",
        "The device plugin restarted or a GPU is unhealthy: look at the node's device plugin; create the Pod again.",
        (
            Signature(
                r"UnexpectedAdmissionError|Allocate failed due to|^OutOf|TopologyAffinityError|"
                r"didn't have enough resource",
                "kubelet pkg/kubelet/cm/devicemanager",
                channel="status",
            ),
            Signature(
                r"UnexpectedAdmissionError|Allocate failed due to|^OutOf|TopologyAffinityError|"
                r"didn't have enough resource|^FailedPrepareDynamicResources: ",
                "kubelet pkg/kubelet/cm/devicemanager, pkg/kubelet/cm/dra",
                channel="event",
            ),
            Signature(
                r"Failed to initialize NVML: Unknown Error|NVMLError_(?:Unknown|GpuIsLost)\b",
                "NVML, in a container that lost its devices (a reload of systemd on the node), or of a lost GPU",
                ambiguous=True,
            ),
        ),
    ),
    Cause(
        "preempted",
        "The cluster took the node or the place away",
        "A Pod of higher priority, a drain or a spot instance that ended: not vLLM's fault. A priorityClass, "
        "a PodDisruptionBudget or another node pool help.",
        (
            Signature(
                r"^(?:Preempt\w*|NodeShutdown|Terminated|TaintManagerEviction|DeletionByTaintManager|DisruptionTarget|"
                r"NodeLost|Shutdown)\b|imminent node shutdown|node shutdown",
                "kubelet node shutdown, kube-scheduler preemption, taint manager",
                channel="status",
            ),
            Signature(
                r"^(?:Preempted|PreemptionByScheduler|TaintManagerEviction|NodeNotReady|NodeShutdown|"
                r"TerminationByKubelet|SpotInterruption\w*|Shutdown|Drain\w*): |imminent node shutdown",
                "kube-scheduler, taint manager, kubelet, Karpenter",
                channel="event",
            ),
        ),
    ),
    Cause(
        "sandbox-failed",
        "The node could not set up the Pod's network or sandbox",
        "A fault of the node or its network plugin, not of the Pod.",
        (
            Signature(
                r"^FailedCreatePodSandBox: |^FailedCreatePodContainer: ",
                "kubelet pkg/kubelet/kuberuntime",
                channel="event",
            ),
        ),
    ),
)
