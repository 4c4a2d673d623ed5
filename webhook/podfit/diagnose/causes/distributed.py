"""Causes between the processes of an engine, and between engines: RDMA, connectors, collectives."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

_CONNECTOR = r"kv_transfer|kv_connector|[Nn]ixl|NIXL|[Ll][Mm][Cc]ache|[Mm]ooncake|nvshmem|NVSHMEM"

"""Frames of the transfer of KV cache between engines."""

CAUSES = (
    Cause(
        "rdma-memlock",
        "The container may not lock the memory that RDMA registers",
        "Not the memory limit: add the capability IPC_LOCK (securityContext.capabilities.add), or raise the node "
        "runtime's limit of locked memory (LimitMEMLOCK=infinity of containerd).",
        (
            Signature(
                r"ibv_(?:reg|create|alloc)_\w+.*(?:Cannot allocate memory|ENOMEM|errno:? 12)|"
                r"(?:register memory|reg_mr).*Cannot allocate memory|RLIMIT_MEMLOCK|max locked memory|"
                r"memlock limit|locked memory (?:limit|size)",
                "NCCL src/misc/ibvwrap.cc; UCX src/uct/ib; Mooncake; libfabric",
                any_level=True,
            ),
            Signature(
                r"ibv_reg_\w*mr\w*.*(?:failed|error)",
                "NCCL, UCX, NVSHMEM, of another errno: GPUDirect (nvidia_peermem) may be missing too",
                ambiguous=True,
            ),
        ),
        plane="host",
    ),
    Cause(
        "expert-exchange-timeout",
        "The expert-parallel ranks waited for each other until the timeout",
        "One rank is missing, slow or can't be reached: read the log of each rank for an earlier error. Then check "
        "that "
        "all ranks have the same image and arguments, and the RDMA devices.",
        (
            Signature(
                r"DeepEP (?:error: |timeout|\S* ?timed? ?out)|DeepEP.*(?:timeout|timed out)|"
                r"(?:dispatch|combine) .{0,40}(?:CPU recv timeout|timed out)|CPU recv timeout",
                "DeepEP csrc/deep_ep.cpp, csrc/kernels/",
            ),
        ),
    ),
    Cause(
        "kv-connector-error",
        "The connector that transfers KV cache failed",
        "Check --kv-transfer-config and that the image has the connector's package (nixl, lmcache, mooncake). Then "
        "check "
        "that the Pods reach each other on its ports, and their RDMA devices. Without the option vLLM starts alone.",
        (
            Signature(
                r"[Nn]ixl\S* .{0,60}(?:handshake|metadata).{0,40}fail|[Rr]emote NIXL agent .{0,80}(?:not|fail)",
                "vLLM distributed/kv_transfer/kv_connector/v1/nixl_connector.py, from 0.18 v1/nixl/",
                "0.10–0.33",
                rules=("nixl-side-channel-host",),
            ),
            Signature(
                r"NIXL is not available|NIXL_ERR_\w+|nixl\w*Error|[Ff]ailed .{0,30}NIXL|"
                r"vllm model for \S+ not found|Unsupported connector type|[Uu]nknown (?:kv )?connector|"
                r"LMCache\w* .{0,60}(?:[Ff]ailed|[Ee]rror|not found)|lmcache\S*(?:Error|Exception)\b|"
                r"[Mm]ooncake\S* .{0,60}(?:[Ff]ailed|initialization failed|not found)|"
                r"No module named '?(?:nixl|lmcache|mooncake)|"
                r"KV (?:connector|transfer) .{0,60}(?:not supported|does not support|[Ff]ailed|requires|is required)|"
                r"kv_(?:transfer_config|role|connector)\b.{0,60}(?:must|not|required|invalid)",
                "vLLM distributed/kv_transfer/; NIXL; LMCache; Mooncake",
                "0.7–0.33",
            ),
            Signature(
                r"nvshmem\S* .{0,80}(?:[Ff]ailed|error|exiting|abort)|NVSHMEM\S* .{0,80}(?:[Ff]ailed|error|not found)|"
                r"(?:IBGDA|ibgda)\b.{0,80}(?:[Ff]ail|error|not|unable)|init failed for (?:remote )?transport|"
                r"libnvshmem\S*: cannot open|unable to (?:setup|create) .{0,40}(?:IBGDA|ibgda|transport)",
                "NVSHMEM src/host/, src/modules/transport/ibgda",
            ),
            Signature(
                r"^(?:[\w.]+\.)?\w*(?:Error|Exception)\b(?:: |$)",
                "Python, inside of the connector's frames",
                weak=True,
                within=_CONNECTOR,
            ),
            Signature(
                r"\bUCX +ERROR\b|Unexpected UCX error|NIXL transfer failure|transfer failed .{0,40}(?:nixl|NIXL)|"
                r"handshake_failed",
                "UCX; NIXL; vLLM distributed/kv_transfer/kv_connector/v1/nixl/",
                weak=True,
                any_level=True,
            ),
        ),
    ),
    Cause(
        "ranks-disconnected",
        "The processes of the engine lost each other",
        "One rank hung or died, or can't be reached: look at the others' logs first, then at "
        "NCCL_SOCKET_IFNAME, network policies and the fabric (NCCL_DEBUG=INFO).",
        (
            Signature(
                r"peer access is not supported between",
                "CUDA runtime API, cudaErrorPeerAccessUnsupported",
                ambiguous=True,
            ),
            Signature(
                r"Watchdog caught collective operation timeout|ncclRemoteError|ncclSystemError|ncclInternalError|"
                r"unhandled system error|NCCL error|NCCL communicator was aborted|"
                r"Connection closed by (?:remote )?peer|Broken pipe",
                "PyTorch ProcessGroupNCCL.cpp; NCCL",
                weak=True,
            ),
            Signature(
                r"DistNetworkError|DistStoreError|The client socket has timed out|"
                r"The client socket has failed to connect|Timed out after \d+ seconds waiting for clients|"
                r"wait timeout after \d+ms|Gloo connectFullMesh failed|Barrier timed out",
                "PyTorch torch/csrc/distributed/c10d/, gloo; vLLM distributed/utils.py",
                weak=True,
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:RuntimeError|TimeoutError|ConnectionError|OSError)\b",
                "vLLM and PyTorch, raised where the ranks are connected",
                weak=True,
                innermost=r"/torch/distributed/\S+\.py|vllm/distributed/(?:device_communicators/(?!shm_broadcast)\w+|"
                r"parallel_state|utils)\.py",
            ),
            Signature(
                r"waitForInput: socket .* timed out after \d+ms",
                "PyTorch torch/csrc/distributed/c10d/socket.cpp, a warning of the rank that gives up",
                weak=True,
                any_level=True,
            ),
        ),
        meanings=(
            (
                r"peer access is not supported",
                "'peer access': these GPUs do not reach each other's memory (no NVLink, an IOMMU, a virtual machine): "
                "add --disable-custom-all-reduce and the variable NCCL_P2P_DISABLE=1.",
            ),
            (
                r"connectFullMesh|Unable to resolve hostname",
                "Gloo takes the interface of the host's name: set GLOO_SOCKET_IFNAME to the Pod's (eth0).",
            ),
        ),
    ),
)
