"""Causes in GPU memory."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

_PINNED = r"pin_memory|cudaHostAlloc|cudaHostRegister|CachingHostAllocator|pinned"
"""Frames of an allocation of host memory, whose failure CUDA words like one of its own."""

CAUSES = (
    Cause(
        "gpu-out-of-memory",
        "The GPU ran out of memory",
        "After the KV cache was made: lower --gpu-memory-utilization. While weights are loaded: raise "
        "--tensor-parallel-size, use a quantized checkpoint or a larger GPU. While the engine profiles: lower "
        "--max-num-seqs or --max-num-batched-tokens. Host memory "
        "does not help.",
        (
            Signature(
                r"\b(?:CUDA|HIP|XPU|ROCm|NPU) out of memory",
                "PyTorch c10/cuda/CUDACachingAllocator.cpp; vLLM v1/worker/gpu_model_runner.py (warming up sampler, "
                "pooler)",
                unless=r"Skipping tactic|[Ff]alling back|fallback",
            ),
            Signature(
                r"\btorch\.(?:cuda\.)?OutOfMemoryError\b", "PyTorch 2.5 torch.OutOfMemoryError, before torch.cuda."
            ),
            Signature(
                r"(?:CUDA|HIP)(?: driver)? [Ee]rror: out of memory|cudaMalloc\w* failed: out of memory",
                "PyTorch c10/cuda/CUDAException.cpp; vLLM csrc/cumem_allocator.cpp",
                unless=_PINNED,
            ),
            Signature(r"Triton Error \[(?:CUDA|HIP)\]: out of memory", "Triton third_party/nvidia/backend/driver.c"),
            Signature(
                r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory|"
                r"[Cc]uda failure (?:\d+ )?'out of memory'",
                "CUDA driver and runtime API; NCCL src/include/checks.h",
                unless=_PINNED,
            ),
            Signature(
                r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|Failed to CUDA calloc",
                "cuBLAS, cuDNN; NCCL src/include/alloc.h",
            ),
            Signature(
                r"Failed to load model - not enough GPU memory",
                "vLLM v1/worker/gpu_model_runner.py load_model",
                "0.14–0.33",
            ),
            Signature(
                r"RESOURCE_EXHAUSTED: .*(?:hbm|HBM|device buffer)|Ran out of memory in memory space hbm|"
                r"too large for the current device's HBM memory",
                "XLA, on TPUs; vLLM v1/worker/tpu_model_runner.py",
            ),
            Signature(r"(?:UR_RESULT_ERROR|CL|ZE_RESULT_ERROR)_OUT_OF_DEVICE_MEMORY", "Intel's Level Zero and OpenCL"),
            Signature(
                r"may be caused by insufficient memory to allocate|might be due to insufficient GPU memory|"
                r"higher than the total available device memory",
                "vLLM model_executor/layers/linear.py, attention/layer.py, worker/openvino_worker.py",
                "0.6–0.33",
            ),
        ),
        ("gpu-memory-exceeded", "gpu-memory-utilization-too-high", "kv-cache-too-small"),
    ),
    Cause(
        "no-kv-blocks",
        "Weights and activations leave no GPU memory for the KV cache",
        "Needs a larger share (--gpu-memory-utilization), fewer bytes of weights on each GPU "
        "(--tensor-parallel-size, a quantized checkpoint), smaller activations (--max-num-batched-tokens, "
        "--max-num-seqs) or a larger GPU.",
        (
            Signature(
                r"No available memory for the.{0,60}VLLM_CPU_KVCACHE_SPACE",
                "vLLM worker/cpu_worker.py",
                "0.5–0.9",
                plane="host",
                rules=("memory-limit-too-low",),
            ),
            Signature(
                r"No available memory for the cache",
                "vLLM worker/worker.py (V0), v1/core/kv_cache_utils.py, 0.33 v1/core/kv_cache_planning.py",
                "0.4–0.33",
            ),
            Signature(
                r"Cannot auto-fit max_model_len: not enough GPU memory", "vLLM v1/core/kv_cache_utils.py", "0.14–0.33"
            ),
            Signature(
                r"Available KV cache memory:? -\d|reserved for KV Cache is -\d",
                "vLLM v1/worker/gpu_worker.py, 0.6–0.10 worker/worker.py",
                "0.6–0.33",
                weak=True,
                any_level=True,
            ),
        ),
        ("gpu-memory-exceeded", "gpu-memory-utilization-too-high"),
    ),
    Cause(
        "kv-cache-too-small",
        "The KV cache can't hold one request of the maximum length",
        "Needs a shorter --max-model-len (vLLM prints the longest that fits), a smaller cache entry "
        "(--kv-cache-dtype fp8), a larger --gpu-memory-utilization, more GPUs or a larger one.",
        (
            Signature(
                r"at least one request with the model\S* max seq len|GiB KV cache is needed",
                "vLLM v1/core/kv_cache_utils.py, 0.33 v1/core/kv_cache_planning.py",
                "0.7–0.33",
            ),
            Signature(
                r"larger than the maximum number of tokens that can be\s+stored in KV cache|"
                r"max seq len \(\d+\) is larger than the maximum number of tokens",
                "vLLM worker/worker.py (V0), 0.6 v1/worker/gpu_worker.py",
                "0.4–0.10",
            ),
        ),
        ("kv-cache-too-small", "max-model-len-unset", "gpu-memory-exceeded"),
    ),
    Cause(
        "mamba-blocks-too-few",
        "The cache has fewer Mamba blocks than sequences run at once",
        "Needs a --max-num-seqs not above the number of blocks that vLLM prints, or a larger --gpu-memory-utilization.",
        (Signature(r"exceeds available Mamba cache blocks", "vLLM config/compilation.py", "0.23–0.33"),),
        ("kv-cache-too-small",),
    ),
    Cause(
        "gpu-memory-taken",
        "Another process uses part of the GPU's memory",
        "Another process is on the GPU: a second engine (time-slicing, MPS), the last one not yet gone, a "
        "display. Shares of the engines on one GPU must add up to less than 1; after a crash, wait until the "
        "old process is gone.",
        (
            Signature(
                r"Free memory on device[^()]*\([^)]*\) on startup is",
                "vLLM v1/worker/gpu_worker.py, from 0.14 v1/worker/utils.py request_memory",
                "0.9–0.33",
            ),
            Signature(
                r"Error in memory profiling\. Initial (?:free|used) memory",
                "vLLM worker/worker.py, v1/worker/gpu_worker.py",
                "0.5–0.33",
            ),
            Signature(
                r"Externally held weights on device .* exceed the desired GPU memory",
                "vLLM v1/worker/utils.py",
                "0.33",
            ),
        ),
        ("gpu-memory-utilization-too-high",),
    ),
)
