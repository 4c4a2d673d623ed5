"""Causes in host memory: the cgroup's limit, /dev/shm, pinned memory, threads."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

_SHM = (
    r"/dev/shm|psm_|shared_memory\.py|shm_broadcast|shm_open|_posixshmem|/torch_\d|shared_offload_region|"
    r"shm_object_storage"
)

"""Frames and names of POSIX shared memory."""

CAUSES = (
    Cause(
        "oom-killed",
        "The kernel killed a process for want of host memory",
        "Needs a higher memory limit, or less host memory: no eager loading, smaller offload and multimodal "
        "caches, fewer processes. GPU memory has nothing to do with it.",
        (
            Signature(
                r"\bOOMKilled\b",
                "kubelet: the container's cgroup met its limit (kubernetes pkg/kubelet)",
                channel="status",
            ),
            Signature(
                r"OOMKilling: |SystemOOM: |OOMKilled|Memory cgroup out of memory",
                "node-problem-detector config/kernel-monitor.json; kubelet oom watcher",
                channel="event",
            ),
            Signature(
                r"Memory cgroup out of memory: Kill|[Oo]ut of memory: Kill(?:ed)? process|oom-kill:constraint=|"
                r"invoked oom-killer|oom_reaper: reaped|System OOM encountered",
                "Linux mm/oom_kill.c",
                any_level=True,
            ),
            Signature(r"[Dd]etected \d+ oom[-_ ]kill event", "slurmstepd", any_level=True),
            Signature(
                r"Task was killed due to the node running low on memory|killed due to memory pressure \(OOM\)|"
                r"ray\.exceptions\.OutOfMemoryError",
                "Ray src/ray/raylet/node_manager.cc",
                any_level=True,
            ),
            Signature(
                r"is killed by signal: Killed|[Ww]as sent SIGKILL! Perhaps out of memory",
                "PyTorch torch/utils/data/_utils/signal_handling.py; gunicorn arbiter.py",
            ),
            Signature(
                r"reason:? ?['\"]?OOMKilled|\"OOMKilled\": ?true|TaskOOM event|Container killed due to memory usage",
                "docker inspect; containerd's log; Amazon ECS",
                any_level=True,
            ),
            Signature(
                r"^\s*Killed\s*$|line \d+:\s+\d+ Killed\b|^\s*\d+ Killed\s",
                "bash, of a child that got SIGKILL",
                weak=True,
            ),
            Signature(
                r"(?:pid \d+ |\(PID: \d+\) )died,? (?:with )?exit code:? -9\b|died unexpectedly \(exit code: -9\)|"
                r"'(?:EngineCore|Worker|VllmWorker)[\w-]*': -9\b|exited with (?:exit )?code:? -9\b|exitcode[=:] ?-9\b",
                "vLLM executor/multiproc_worker_utils.py (V0), v1/executor/multiproc_executor.py, v1/engine/utils.py",
                "0.5–0.33",
                weak=True,
            ),
            Signature(
                r"(?:Worker proc|Engine core proc|RayWorkerProc) \S+ died unexpectedly|"
                r"Engine core process \S+ died unexpectedly",
                "vLLM v1/executor/multiproc_executor.py, v1/engine/core_client.py",
                "0.8–0.33",
                weak=True,
                unless=r"exit code: -?(?!9\b)\d",
            ),
            Signature(
                r"(?:killed|terminated|died|received)\b.{0,60}\b(?:SIGKILL|signal 9\b|signal: 9\b)|"
                r"Signal 9 \(SIGKILL\)|killed by SIGKILL by OOM killer|[Ww]orker process .{0,40}was killed",
                "torch.distributed.elastic; Ray, whose message lists it as the first possibility",
                weak=True,
            ),
        ),
        (
            "memory-limit-too-low",
            "offload-exceeds-limit",
            "memory-headroom-missing",
            "memory-limit-missing",
            "memory-limit-below-checkpoint",
            "cpu-kv-cache-unbounded",
            "shm-not-in-limit",
        ),
        meanings=(
            (
                r"died unexpectedly(?! \(exit code)",
                "This line does not say what ended the process. `kubectl describe pod` shows OOMKilled if it was "
                "memory. A full /dev/shm (SIGBUS) and a crash (SIGSEGV) print this line, too.",
            ),
        ),
    ),
    Cause(
        "host-memory-exhausted",
        "An allocation of host memory failed",
        "No process was killed: the allocation itself failed. Needs a higher memory limit or node, less "
        "swap space or offload, or no limit on virtual memory (ulimit -v).",
        (
            Signature(
                r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|"
                r"\[Errno 12\]|Cannot allocate memory|^\s*MemoryError\b|"
                r"std::bad_alloc|ENOMEM",
                "PyTorch c10/core/impl/alloc_cpu.cpp; errno 12",
                unless=r"GPU|CUDA out of memory|ibv_|memlock|register memory",
            ),
            Signature(
                r"(?:CUDA|HIP)(?: driver)? [Ee]rror: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation",
                "CUDA, of pinned host memory: the frames say so",
                within=r"pin_memory|cudaHostAlloc|cudaHostRegister|CachingHostAllocator",
            ),
            Signature(
                r"cudaHost(?:Alloc|Register)\b.*(?:fail|error|out of memory)",
                "vLLM v1/simple_kv_offload/cuda_mem_ops.py",
                "0.19–0.33",
            ),
            Signature(r"Too large swap space", "vLLM config/cache.py", "0.5–0.14"),
            Signature(r"lack of CPU swap space", "vLLM core/scheduler.py", "0.5–0.10"),
            Signature(
                r"Available memory on node \S+ \([^)]*\) on (?:startup|kv cache allocation) is less",
                "vLLM v1/worker/cpu_worker.py",
                "0.24–0.33",
            ),
            Signature(
                r"The worker already uses \S+ GiB \(model weights and runtime\), more than the \S+ GiB of CPU memory",
                "vLLM v1/worker/cpu_worker.py",
                "0.33",
            ),
            Signature(r"pinned host pool needs ~.* RAM is available", "vLLM v1/hisparse/runtime.py", "0.33"),
        ),
        ("memory-limit-too-low", "offload-exceeds-limit", "cpu-kv-cache-unbounded"),
    ),
    Cause(
        "evicted-memory",
        "The node ran out of memory and evicted the Pod",
        "Needs a memory request as high as what the Pod uses, so that the scheduler leaves room for it.",
        (
            Signature(
                r"low on resource: memory|MemoryPressure", "kubelet pkg/kubelet/eviction/helpers.go", channel="status"
            ),
            Signature(
                r"^Evicted: .*(?:low on resource: memory|MemoryPressure)|^EvictionThresholdMet: .*memory",
                "kubelet pkg/kubelet/eviction/helpers.go",
                channel="event",
            ),
        ),
        ("memory-request-too-low", "memory-limit-missing"),
    ),
    Cause(
        "shm-too-small",
        "/dev/shm is too small",
        "Needs a memory volume at /dev/shm (emptyDir with medium: Memory, counted in the memory limit). A "
        "container has 64 MiB otherwise, and engines of several processes need 256 MiB and more.",
        (
            Signature(
                r"Insufficient space in /dev/shm",
                "vLLM distributed/device_communicators/shm_broadcast.py, v1/kv_offload/cpu/shared_offload_region.py",
                "0.27–0.33",
            ),
            Signature(
                r"Error while creating shared memory segment|ncclShmOpen|failed to extend /dev/shm|"
                r"NCCL WARN Call to (?:posix_fallocate|ftruncate|shm_open) failed|"
                r"NCCL WARN .*(?:shared memory|/dev/shm).*No space left",
                "NCCL src/misc/shmutils.cc",
            ),
            Signature(
                r"No space left on device.*(?:/dev/shm|psm_|/torch_\d)|(?:/dev/shm|/torch_\d|"
                r"shared memory).*No space left on device",
                "errno 28 on a tmpfs; PyTorch aten/src/ATen/MapAllocator.cpp",
            ),
            Signature(
                r"No space left on device|\[Errno 28\]", "errno 28 inside of shared memory's frames", within=_SHM
            ),
            Signature(
                r"unhandled system error",
                "NCCL, ncclSystemError: the lines before name /dev/shm",
                within=r"/dev/shm|shared memory",
            ),
            Signature(
                r"\bBus error\b|SIGBUS\b|insufficient shared memory \(shm\)|out of shared memory|"
                r"unable to (?:allocate|open|resize) shared memory|"
                r"is killed by signal: Bus error",
                "Linux, of a page of tmpfs that can't be had; PyTorch torch/utils/data/_utils/signal_handling.py",
                unless=r"OutOfResources|out of resource",
            ),
            Signature(
                r"died,? (?:with )?exit code:? -7\b|died unexpectedly \(exit code: -7\)|'(?:EngineCore|Worker|"
                r"VllmWorker)[\w-]*': -7\b",
                "vLLM, of a process that got SIGBUS",
                "0.5–0.33",
            ),
            Signature(r"exit code 135\b", "128 + SIGBUS", channel="status", weak=True),
        ),
        ("shm-missing", "shm-too-small"),
    ),
    Cause(
        "shm-leftover",
        "/dev/shm still holds what a crashed engine left",
        "A memory volume lives as long as the Pod: the restarted container finds the old files. Delete the "
        "Pod, or clear /dev/shm before vLLM starts.",
        (
            Signature(
                r"FileExistsError\b.*(?:psm_|/dev/shm|vllm|shm|mmap|sem\.)|File exists: ['\"]?/(?:psm_|dev/shm|vllm)",
                "Python multiprocessing/shared_memory.py; vLLM v1/kv_offload/cpu/shared_offload_region.py",
            ),
            Signature(r"FileExistsError\b|\[Errno 17\]", "errno 17 inside of shared memory's frames", within=_SHM),
            Signature(
                r"\[Errno 14\] Bad address",
                "madvise on a full /dev/shm; vLLM v1/kv_offload/cpu/shared_offload_region.py (vllm#54002, #51579)",
                "0.24–0.33",
                within=_SHM + r"|madvise|vllm_offload",
            ),
        ),
        ("shm-too-small",),
    ),
    Cause(
        "too-many-threads",
        "The container may start no more threads or processes",
        "Needs a higher PID limit (kubelet podPidsLimit, ulimit -u), or fewer threads (OMP_NUM_THREADS).",
        (
            Signature(
                r"can't start new thread|pthread_create failed|fork: retry: Resource temporarily unavailable|"
                r"libgomp: Thread creation failed|BlockingIOError: \[Errno 11\] Resource temporarily unavailable",
                "errno 11, EAGAIN",
            ),
        ),
    ),
)
