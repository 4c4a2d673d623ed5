"""Causes in the GPU: computations that it can't do or that fail."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

CAUSES = (
    Cause(
        "gpu-lacks-dtype",
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
        ("gpu-lacks-dtype", "model-lacks-dtype"),
    ),
    Cause(
        "gpu-lacks-quantization",
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
            Signature(
                r"[Hh]ead[_ ]?[Ss]ize:? \d+ is not supported|[Uu]nsupported head(?:_| )(?:size|dim)|"
                r"forward only supports head dimension|[Hh]ead dim(?:ension)? \d+ (?:is )?not supported|"
                r"(?:is|are) not supported by (?:\w*Attention\w*|\w*MLA\w*|FLASH\w+|TRITON\w+|XFORMERS)\b",
                "vLLM v1/attention/backends/, attention/backends/, attention/ops/paged_attn.py",
                "0.4–0.33",
                rules=("no-attention-backend",),
            ),
            Signature(
                r"(?:Flash(?:Attention|MLA|Infer)|Triton(?:MLA|Attention)?|FlexAttention|CutlassMLA|XFormers|"
                r"ROCm\w*)\S* "
                r"(?:V1 )?(?:with FP8 KV cache not yet supported|(?:backend )?(?:does not|doesn't) support|"
                r"(?:backend )?is not supported (?:on|for|by)|requires (?:compute|SM|Hopper|GPU))",
                "vLLM v1/attention/backends/",
                "0.5–0.33",
                rules=("no-attention-backend",),
                ambiguous=True,
            ),
            Signature(
                r"[Ss]inks? (?:are|is) only supported|block[_ ]size .{0,40}(?:must be a multiple|not supported by)|"
                r"Sliding window .{0,40}not supported|attention backend \S+ (?:is not supported|is not available)",
                "vLLM v1/attention/backends/",
                "0.8–0.33",
                rules=("no-attention-backend",),
                ambiguous=True,
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:ValueError\b|NotImplementedError\b|AssertionError: \w)",
                "vLLM's attention backends, raised where they are set up",
                "0.5–0.33",
                weak=True,
                innermost=r"vllm/(?:v1/attention|attention|vllm_flash_attn)/\S+\.py",
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
        "The GPU can't run the kernels of this image or checkpoint",
        "Needs an image whose CUDA (or ROCm) and PyTorch know the GPU's architecture, a checkpoint in a format that "
        "the "
        "GPU computes, or another GPU.",
        (
            Signature(
                r"no kernel image is available for execution on the device|cudaErrorNoKernelImageForDevice",
                "CUDA runtime API, cudaErrorNoKernelImageForDevice",
            ),
            Signature(
                r"HIP error: (?:invalid device function|no kernel image)|hipErrorNoBinaryForGpu|"
                r"hipErrorInvalidDeviceFunction|Unsupported (?:GPU )?arch(?:itecture)?:? '?gfx\d",
                "HIP runtime: the library has no code for the GPU's gfx architecture",
            ),
            Signature(
                r"Quantization scheme is not supported|"
                r"(?:scheme|method|kernel|[Mm]arlin|NVFP4|MXFP4|FP8|W4A8|W8A8)\b.{0,60} (?:not supported|unsupported) "
                r"(?:on|for|by) (?:this|the current|current) (?:GPU|device|platform|hardware)",
                "vLLM model_executor/layers/quantization/compressed_tensors/compressed_tensors.py",
                "0.5–0.33",
                rules=("gpu-lacks-quantization",),
                unless=r"quantization method \S+ is not supported for the current GPU",
            ),
            Signature(
                r"FlashAttention only supports (?:Ampere|Hopper)", "flash-attention csrc/flash_attn/flash_api.cpp"
            ),
            Signature(
                r"Unsupported compute capability|is not defined for option 'gpu-name'|"
                r"[Uu]nsupported gpu architecture 'compute_\d+|Unknown CUDA arch|"
                r"deep_gemm.*Unsupported architecture|CUDA capability sm_\d+ is not (?:compatible|supported)",
                "vLLM vllm_flash_attn/cute/interface.py; Triton's ptxas; nvcc; PyTorch; DeepGEMM",
            ),
            Signature(
                r"No compiled \S+(?: kernel)? for (?:a |CUDA )?(?:compute|device) capability|"
                r"[Nn]o \w+ kernel for CUDA device capability|\): Unsupported architecture|"
                r"No compiled \w+: no \w+ kernel|Failed to find a kernel that can implement the \w+|"
                r"No \w+ MoE backend supports the deployment configuration|Device does not support multicasting|"
                r"Forced \w+ kernel \S+ is not supported",
                "vLLM csrc/quantization/, model_executor/kernels/, layers/fused_moe/; DeepGEMM; PyTorch",
                "0.6–0.33",
                rules=("gpu-lacks-quantization",),
            ),
            Signature(
                r"Could not run '\w+::\w+' with arguments from the '(?:CUDA|HIP|XPU)' backend.* "
                r"(?:backends: )?\[(?:Meta|BackendSelect)",
                "PyTorch c10/core/: the image has no kernel of this name for the GPU's architecture",
                ambiguous=True,
            ),
            Signature(
                r"cutlass\S* ?:? ?\d*:? .*[Ee]rror [Ii]nternal|[Ff]ailed to (?:initialize|run) (?:the )?cutlass|"
                r"\[TensorRT-LLM\]\[ERROR\] Assertion failed: .*(?:[Uu]nsupported|arch|SM)",
                "CUTLASS, TensorRT-LLM's kernels: their tiles need more shared memory or another architecture",
                ambiguous=True,
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:RuntimeError\b|NotImplementedError\b|(?:ValueError|AssertionError): .*support)",
                "vLLM's kernels and quantization, raised where they are chosen or called",
                "0.5–0.33",
                weak=True,
                innermost=r"vllm/(?:_custom_ops|model_executor/(?:kernels|layers/(?:quantization|fused_moe))/\S+)\.py",
                rules=("gpu-lacks-quantization",),
            ),
            Signature(
                r"with CUDA capability sm_\d+ is not compatible with the current PyTorch",
                "PyTorch torch/cuda/__init__.py, a warning before the failure",
                weak=True,
                any_level=True,
            ),
        ),
    ),
    Cause(
        "gpu-kernel-resources",
        "A kernel needs more on-chip memory than the GPU has",
        "Triton's shared memory is the GPU's, not /dev/shm: needs another attention backend, a smaller block "
        "size or another GPU.",
        (Signature(r"OutOfResources: out of resource: shared memory", "Triton python/triton/runtime/errors.py"),),
    ),
    Cause(
        "cuda-error",
        "The GPU, its driver or a kernel failed",
        "See what the node reports of the GPU (dmesg, `nvidia-smi -q`): an Xid or ECC error is its own. Otherwise a "
        "kernel "
        "failed: try another --attention-backend or release. CUDA_LAUNCH_BLOCKING=1 shows which one.",
        (
            Signature(
                r"(?:CUDA|HIP)(?: driver)? error: (?:an illegal (?:memory access|instruction)|"
                r"unspecified launch failure|"
                r"misaligned address|device-side assert|uncorrectable|unknown error|hardware stack|"
                r"the launch timed out|operation not permitted|operation failed due to a previous error|"
                r"invalid (?:argument|configuration|resource handle|program counter))|"
                r"uncorrectable (?:ECC|NVLink) error|"
                r"[Gg][Pp][Uu] (?:is lost|has fallen off the bus)|NVRM: Xid|"
                r"cudaError(?:IllegalAddress|LaunchFailure|Assert|ECCUncorrectable|MisalignedAddress)|"
                r"hipError(?:IllegalAddress|LaunchFailure)",
                "CUDA runtime API error strings; NVIDIA kernel module",
            ),
            Signature(r"Memory access fault by GPU|HSA_STATUS_ERROR", "ROCm runtime"),
            Signature(
                r"[Cc]uda failure (?:\d+ )?'(?!out of memory)",
                "NCCL src/include/checks.h",
            ),
            Signature(
                r"CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED|INVALID_VALUE|NOT_SUPPORTED|"
                r"ARCH_MISMATCH)|CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED|MAPPING_ERROR)|"
                r"Triton Error \[(?:CUDA|HIP)\]: (?!out of memory)",
                "cuBLAS, cuDNN, Triton",
                ambiguous=True,
            ),
            Signature(
                r"(?:CUDA|HIP)(?: driver)? error: \w|AcceleratorError: ",
                "PyTorch c10/cuda/CUDAException.cpp, of any other error",
                weak=True,
            ),
        ),
        meanings=(
            (
                r"during capture|stream is capturing|uncaptured",
                "The CUDA graphs were being captured: --enforce-eager leaves them out, and shows the kernel's own "
                "error.",
            ),
            (
                r"busy or unavailable",
                "'busy or unavailable': another process holds the GPU in exclusive mode, or the MIG device is gone.",
            ),
        ),
    ),
)
