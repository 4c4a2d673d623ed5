"""What goes wrong on the GPU: its memory, and what it can't compute."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

_PINNED = r"pin_memory|cudaHostAlloc|cudaHostRegister|CachingHostAllocator|pinned"
"""Frames of an allocation of host memory, whose failure CUDA words like one of its own."""

CAUSES = (
    Cause(
        "gpu-out-of-memory",
        "gpu",
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
        "gpu",
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
        "gpu",
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
        "gpu",
        "The cache has fewer Mamba blocks than sequences run at once",
        "Needs a --max-num-seqs not above the number of blocks that vLLM prints, or a larger --gpu-memory-utilization.",
        (Signature(r"exceeds available Mamba cache blocks", "vLLM config/compilation.py", "0.23–0.33"),),
        ("kv-cache-too-small",),
    ),
    Cause(
        "gpu-memory-taken",
        "gpu",
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
    Cause(
        "gpu-lacks-dtype",
        "gpu",
        "The GPU can't compute in this data type",
        "Needs --dtype half (bfloat16 wants compute capability 8.0, FP8 8.9), another --kv-cache-dtype, or a "
        "newer GPU.",
        (
            Signature(
                r"[Bb]float16 is only supported on GPUs with compute capability",
                "vLLM worker/worker.py, v1/worker/gpu_worker.py, from 0.8 platforms/cuda.py",
                "0.5–0.33",
            ),
            Signature(
                r"(?:bfloat16|FP8) KV cache is not supported (?:on|by)",
                "vLLM v1/attention/backends/triton_attn.py, from 0.26 mla/triton_mla.py",
                "0.24–0.33",
                rules=("no-attention-backend",),
            ),
            Signature(
                r"type fp8e4(?:nv|b8|m3\w*) not supported in this architecture",
                "Triton python/triton/language/semantic.py",
            ),
            Signature(
                r"_scaled_mm is only supported on CUDA devices with compute capability",
                "PyTorch aten/src/ATen/native/cuda/Blas.cpp",
            ),
            Signature(r"Feature '\.bf16'.* requires \.target sm_80", "ptxas"),
        ),
        ("gpu-lacks-dtype",),
    ),
    Cause(
        "gpu-lacks-quantization",
        "gpu",
        "The GPU has no kernels for this quantization",
        "Needs a checkpoint in another format, or a GPU of the compute capability that vLLM names.",
        (
            Signature(
                r"quantization method \S+ is not supported for the current GPU",
                "vLLM config/vllm.py, before 0.11 config.py and model_loader/loader.py",
                "0.5–0.33",
            ),
            Signature(
                r"quantization config .* requires GPU compute capability",
                "vLLM layers/quantization/torchao.py",
                "0.24–0.33",
            ),
        ),
        ("gpu-lacks-quantization",),
    ),
    Cause(
        "attention-backend-unfit",
        "gpu",
        "No attention backend fits the model, the GPU and the flags",
        "vLLM says why it turns each backend down. Without --attention-backend (before 0.15 also without "
        "VLLM_ATTENTION_BACKEND) it chooses one that fits, where there is one.",
        (
            Signature(
                r"Selected backend \S+ is not valid for this configuration",
                "vLLM platforms/cuda.py, from 0.18 platforms/rocm.py get_attn_backend_cls",
                "0.11–0.33",
                rules=("invalid-environment",),
            ),
            Signature(
                r"No valid attention backend found for",
                "vLLM platforms/cuda.py, from 0.18 platforms/rocm.py get_attn_backend_cls",
                "0.11–0.33",
                rules=("no-attention-backend",),
            ),
        ),
        meanings=(
            (
                r"compute capability not supported",
                "'compute capability not supported': the backend has no kernels for this GPU. FLASH_ATTN needs 8.0 or "
                "more, FLASHINFER 8.0 … 12.1 (before 0.24: 7.5). FLASHMLA and FLASHMLA_SPARSE need 9.x or 10.x, "
                "FLASH_ATTN_MLA 9.x, CUTLASS_MLA and FLASHINFER_MLA 10.x. TRITON_ATTN and TRITON_MLA run on all.",
            ),
            (
                r"kv_cache_dtype not supported|KV[ -]cache requires|kv-cache dtype",
                "'kv_cache_dtype not supported': leave --kv-cache-dtype out, or use a backend that reads it. "
                "FLASH_ATTN reads fp8 with FlashAttention 3 only (compute capability 9.x; 4 on 10.x since 0.27). "
                "TRITON_MLA reads it since 0.18, FLASH_ATTN_MLA not at all; FLASHINFER and TRITON_ATTN do.",
            ),
            (
                r"\bsinks? (?:setting )?not supported",
                "'sink not supported': the model (gpt-oss and its like) has attention sinks. FLASH_ATTN computes them "
                "on compute capability 9.x, since 0.17 on 10.x too, and TRITON_ATTN everywhere.",
            ),
            (
                r"head_size not supported",
                "'head_size not supported': the model's head_dim is none of the backend's sizes: another backend.",
            ),
            (
                r"(?<!kv_cache_)\bdtype (?:\S+ )?not supported",
                "'dtype not supported': mostly --dtype float32; half or bfloat16 have more backends.",
            ),
            (
                r"block_size not supported",
                "'block_size not supported': leave --block-size out, so that vLLM takes the backend's.",
            ),
            (
                r"(?<!non-)\bMLA not supported|(?<!non-)\bsparse not supported",
                "'MLA not supported', 'sparse not supported': the model (DeepSeek's and its like) has such attention "
                "and needs a backend of that name.",
            ),
            (
                r"non-MLA not supported|non-sparse not supported",
                "'non-MLA not supported', 'non-sparse not supported': the backend is only for models of DeepSeek's "
                "kind of attention.",
            ),
            (
                r"partial multimodal token full attention not supported|mm_prefix",
                "'partial multimodal token full attention not supported': the model looks at an image as a whole "
                "(Gemma 3): another backend, such as TRITON_ATTN or FLEX_ATTENTION.",
            ),
            (
                r"attention type \S+ not supported",
                "'attention type … not supported': an encoder's attention, which few backends have.",
            ),
            (
                r"batch invariance not supported",
                "'batch invariance not supported': VLLM_BATCH_INVARIANT is set: leave it out, or another backend.",
            ),
            (
                r"KV connector not supported",
                "'KV connector not supported': --kv-transfer-config is given: leave it out, or another backend.",
            ),
            (
                r"\b[DP]CP not supported",
                "'DCP not supported', 'PCP not supported': --decode-context-parallel-size or "
                "--prefill-context-parallel-size is given: leave it out, or another backend.",
            ),
            (
                r"ImportError|not installed|dependencies not available",
                "'ImportError': the backend's package is not in the image.",
            ),
        ),
    ),
    Cause(
        "gpu-unsupported",
        "gpu",
        "The image was not built for this GPU",
        "Needs an image whose CUDA and PyTorch know the GPU's architecture, or another GPU.",
        (
            Signature(
                r"no kernel image is available for execution on the device",
                "CUDA runtime API, cudaErrorNoKernelImageForDevice",
            ),
            Signature(
                r"FlashAttention only supports (?:Ampere|Hopper)", "flash-attention csrc/flash_attn/flash_api.cpp"
            ),
            Signature(r"Unsupported compute capability", "vLLM vllm_flash_attn/cute/interface.py", "0.19–0.33"),
        ),
    ),
    Cause(
        "gpu-kernel-resources",
        "gpu",
        "A kernel needs more on-chip memory than the GPU has",
        "Triton's shared memory is the GPU's, not /dev/shm: needs another attention backend, a smaller block "
        "size or another GPU.",
        (Signature(r"OutOfResources: out of resource: shared memory", "Triton python/triton/runtime/errors.py"),),
    ),
    Cause(
        "cuda-error",
        "gpu",
        "The GPU or its driver failed",
        "See what the node says of it (dmesg, nvidia-smi -q): an Xid, an ECC error. Without one it is a "
        "kernel's bug: another attention backend or release, --enforce-eager to find where.",
        (
            Signature(
                r"(?:CUDA|HIP) error: (?:an illegal (?:memory access|instruction)|unspecified launch failure|"
                r"misaligned address|device-side assert|uncorrectable|unknown error|hardware stack|"
                r"the launch timed out|operation not permitted)|uncorrectable (?:ECC|NVLink) error|"
                r"[Gg][Pp][Uu] (?:is lost|has fallen off the bus)|NVRM: Xid",
                "CUDA runtime API error strings; NVIDIA kernel module",
            ),
            Signature(r"Memory access fault by GPU", "ROCm runtime"),
            Signature(
                r"[Cc]uda failure (?:\d+ )?'(?:unspecified launch|an illegal|uncorrectable|unknown error)",
                "NCCL src/include/checks.h",
            ),
        ),
    ),
)
