"""Causes in vLLM's arguments, which it rejects for this model and for the GPUs that the container has."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

CAUSES = (
    Cause(
        "max-model-len-too-long",
        "--max-model-len is longer than the model's own limit",
        "Needs a shorter --max-model-len; VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 only where the model is known to go further.",
        (
            Signature(
                r"User-specified max_model_len \([^)]*\) is greater|greater than the derived max_model_len",
                "vLLM config.py _get_and_verify_max_len, from 0.11 config/model.py",
                "0.5–0.33",
            ),
        ),
        ("max-model-len-too-long",),
    ),
    Cause(
        "entrypoint-repeated",
        "The command of the image is in the arguments once more",
        "The image's entrypoint is `vllm serve` already: leave `vllm serve` (or `python3 -m …`) out of args, or set "
        "command to the whole line.",
        (
            Signature(
                r"error: unrecognized arguments?: (?:.* )?(?:vllm serve|serve(?: |$)|python3? -m vllm)|"
                r"invalid choice: '(?:vllm|python3?|bash|sh|/bin/\w*sh|/usr/\S+|-c)' \(choose from|"
                r"(?:Repo id must|Invalid repository ID|is not a (?:local folder|valid model)).*\W(?:vllm|serve|"
                r"python3?)"
                r"['\"]|^(?:\w+: )?(?:vllm|serve|python3?) is not a local folder|"
                r"can't open file '[^']*/(?:vllm|serve|python3?)'",
                "Python argparse, transformers, huggingface_hub, of the words of the command",
                "0.4–0.33",
            ),
        ),
        ("entrypoint-repeated",),
    ),
    Cause(
        "lora-rank-too-high",
        "An adapter's LoRA rank is above --max-lora-rank",
        "Raise --max-lora-rank to the adapter's rank (r in its adapter_config.json); 16 is the default.",
        (
            Signature(
                r"LoRA rank \d+ is greater than max_lora_rank",
                "vLLM lora/peft_helper.py, before 0.7 lora/models.py",
                "0.4–0.33",
            ),
        ),
        ("conflicting-flags",),
    ),
    Cause(
        "speculative-config",
        "vLLM rejects the speculative decoding that the arguments ask for",
        "Give --speculative-config one JSON object: method (ngram, eagle3, mtp …), num_speculative_tokens, and model "
        "if "
        "the method has a draft model. The draft model must be one of this release.",
        (
            Signature(
                r"num_speculative_tokens|[Uu]nsupported speculative|[Ss]peculative (?:decoding|method|model|config)\S* "
                r".{0,80}(?:not (?:yet )?supported|unsupported|requires|must|cannot|not found|invalid)|"
                r"speculative_(?:model|config|method)\b.{0,60}(?:must|requires|not|without|invalid)|"
                r"validation errors? for SpeculativeConfig|[Dd]raft (?:model|tensor)\S* .{0,60}(?:must|not supported|"
                r"cannot|requires)|draft_tensor_parallel_size|"
                r"(?:EAGLE|Eagle|MTP|Medusa|ngram)\S* .{0,40}(?:is not supported|only supports|not yet supported)|"
                r"'SpeculativeConfig' object",
                "vLLM config/speculative.py, before 0.11 config.py SpeculativeConfig",
                "0.4–0.33",
                ambiguous=True,
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:ValueError|NotImplementedError|AssertionError|TypeError|ImportError)\b",
                "vLLM config/speculative.py, v1/spec_decode/, transformers_utils/configs/speculators/",
                "0.8–0.33",
                weak=True,
                innermost=r"vllm/(?:config/speculative|(?:v1/)?spec_decode/\w+|transformers_utils/configs/speculators/"
                r"\w+)\.py",
            ),
        ),
        ("conflicting-flags", "unknown-config-key"),
    ),
    Cause(
        "wrong-flag",
        "vLLM rejects an argument",
        "The line names the argument: a flag that this release does not know, a value it can't read, or two "
        "that contradict each other. `podfit check` reads the arguments as the release does.",
        (
            Signature(
                r"is not supported(?: by the V1 Engine)?\. (?:No |Falling back|We recommend|Please)",
                "vLLM engine/arg_utils.py _raise_unsupported_error, _raise_or_fallback",
                "0.8–0.33",
                within=r"NotImplementedError",
                rules=("conflicting-flags",),
            ),
            Signature(
                r"error: unrecognized arguments?:",
                "Python argparse, in vLLM's parser",
                "0.5–0.33",
                rules=("removed-flag", "unknown-flag"),
            ),
            Signature(
                r"\berror: (?:argument \S|ambiguous option|the following arguments are required|one of the arguments|"
                r"too few arguments)",
                "Python argparse, in vLLM's parser",
                "0.5–0.33",
                rules=("invalid-flag-value", "unknown-flag"),
            ),
            Signature(
                r"Unknown (?:quantization method|tokenizer mode|dtype|load format|RoPE scaling type)|"
                r"invalid (?:tool call|reasoning) parser|Invalid value '[^']*' for VLLM_|Invalid attention backend|"
                r"GPU memory utilization must be less than|Config file must be of a yaml",
                "vLLM config/, entrypoints/openai/cli_args.py, envs.py, utils/argparse_utils.py",
                "0.5–0.33",
                rules=("invalid-flag-value",),
            ),
            Signature(
                r"Chunked MM input disabled but max_tokens_per_mm_item",
                "vLLM v1/core/encoder_cache_manager.py",
                "0.8–0.33",
                rules=("video-exceeds-batch",),
            ),
            Signature(
                r"does not match the quantization method specified in the|"
                r"max_num_batched_tokens \(\d+\) (?:is smaller than max_model_len|"
                r"must be greater than or equal to max_num_seqs)|"
                r"Error: --[\w-]+ requires|can only be set with --|(?:Cannot use|Please (?:increase|decrease|set|"
                r"disable)) .{0,60}--[a-z]|"
                r"Pipeline parallelism is not supported|must be divisible by pipeline parallel size",
                "vLLM config/, lora/peft_helper.py",
                "0.5–0.33",
                rules=("conflicting-flags",),
            ),
            Signature(
                r"EngineArgs\.__init__\(\) got an unexpected keyword argument|Unexpected extra config keys for",
                "vLLM engine/arg_utils.py, model_executor/model_loader/",
                "0.5–0.33",
                rules=("unknown-flag",),
            ),
            Signature(
                r"\d+ validation errors? for \w*(?:Config|Args)\b|^\s*Value error, ",
                "pydantic, around what vLLM's config classes reject",
                "0.8–0.33",
                weak=True,
                rules=("invalid-flag-value", "conflicting-flags"),
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:Value|NotImplemented|Assertion|Type|Key)Error: .*(?<![\w-])--[a-z][a-z]",
                "vLLM config/, engine/arg_utils.py: the message names the option",
                "0.4–0.33",
                weak=True,
                rules=("conflicting-flags", "invalid-flag-value"),
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:ValueError|NotImplementedError|AssertionError|TypeError)\b",
                "vLLM, raised where it reads the command line",
                "0.4–0.33",
                weak=True,
                innermost=r"vllm/(?:config(?:/\w+)?|engine/arg_utils|entrypoints/\S*cli_args)\.py",
                rules=("conflicting-flags", "invalid-flag-value"),
            ),
            Signature(
                r"\bModel \S+ does not support \w+|\w+(?:ForCausalLM|ForConditionalGeneration|Model)'?>? does not "
                r"support (?:LoRA|BitsAndBytes|pipeline|tensor|quantization)|No supported LoRA modules",
                "vLLM v1/worker/lora_model_runner_mixin.py, model_executor/model_loader/, lora/model_manager.py",
                "0.4–0.33",
                ambiguous=True,
                rules=("conflicting-flags",),
            ),
            Signature(
                r"invalid literal for int\(\) with base 10: '(?:GPU|MIG)-",
                "vLLM platforms/cuda.py, of CUDA_VISIBLE_DEVICES",
                "0.6–0.33",
                rules=("invalid-environment",),
            ),
        ),
        (
            "unknown-flag",
            "removed-flag",
            "invalid-flag-value",
            "conflicting-flags",
            "argument-string-not-split",
            "misplaced-word",
        ),
        meanings=(
            (
                r"base 10: '(?:GPU|MIG)-",
                "CUDA_VISIBLE_DEVICES has the UUID of a GPU, and this release reads numbers: leave the variable out. "
                "The device plugin shows the container only its own GPUs.",
            ),
        ),
    ),
    Cause(
        "quantization-block-indivisible",
        "The tensor-parallel size cuts a quantization group of the checkpoint",
        "Each rank needs whole groups of the quantized weights. Lower --tensor-parallel-size (1 always fits), with "
        "--pipeline-parallel-size for more GPUs, or use a checkpoint with smaller or padded groups.",
        (
            Signature(
                r"not aligned with the quantized weight shape|"
                r"not divisible by\s+(?:weight quantization block_|min_thread_|group_size|\w*block_(?:n|k|size)\b)|"
                r"size_[kn] = \d+ is not divisible by|Invalid thread config: thread_m_blocks|"
                r"(?:block|group)[_ ]size\S* .{0,60}not divisible",
                "vLLM model_executor/layers/quantization/ (fp8.py, gptq.py, awq.py, utils/marlin_utils.py)",
                "0.2–0.33",
                unless=r"attn_chunk_size",
            ),
        ),
        ("tensor-parallel-indivisible",),
    ),
    Cause(
        "tensor-parallel-indivisible",
        "The tensor-parallel size does not divide the model",
        "Needs a --tensor-parallel-size that divides attention heads, vocabulary and quantization groups: "
        "mostly a power of two.",
        (
            Signature(
                r"must be divisible by tensor[ -]parallel (?:world )?size",
                "vLLM config.py verify_with_parallel_config, config/model.py",
                "0.5–0.33",
            ),
            Signature(
                r"AssertionError: \d+ is not divisible by \d+",
                "vLLM distributed/utils.py ensure_divisibility",
                "0.5–0.33",
            ),
            Signature(
                r"not divisible by (?:tp_size|TP\b)|"
                r"must be (?:positive and )?divisible by (?:the )?(?:tp\b|"
                r"tp_size|TP|tensor[ -]parallel)|heads .{0,60}divisible by .{0,20}(?:tensor|tp)",
                "vLLM distributed/utils.py, model_executor/models/",
                "0.5–0.33",
            ),
        ),
        ("tensor-parallel-indivisible",),
    ),
    Cause(
        "too-few-gpus",
        "The arguments need more GPUs than the container has",
        "In one Pod: needs nvidia.com/gpu equal to tensor-parallel size × pipeline-parallel size × data-parallel size. "
        "If several Pods have the GPUs together: needs --distributed-executor-backend ray in the Ray cluster of the "
        "Pods, or --nnodes (with --node-rank, --master-addr) without Ray. Since 0.11.1 vLLM chooses neither by itself.",
        (
            Signature(
                r"World size \(\d+\) is larger than the number of available GPUs|"
                r"Tensor parallel size \(\d+\) cannot be larger than the number of available GPUs",
                "vLLM config/parallel.py",
                "0.11–0.33",
            ),
            Signature(
                r"number of required \w+ exceeds the total number of available",
                "vLLM executor/ray_utils.py",
                "0.5–0.33",
            ),
            Signature(r"Cannot provide a placement group", "vLLM v1/executor/ray_utils.py", "0.6–0.33"),
            Signature(
                r"please ensure that world_size \(\d+\) is less than",
                "vLLM executor/multiproc_gpu_executor.py",
                "0.5–0.10",
            ),
            Signature(r"invalid device ordinal", "CUDA runtime API, cudaErrorInvalidDevice"),
            Signature(r"Duplicate GPU detected", "NCCL src/init.cc: two ranks on one GPU", ambiguous=True),
            Signature(
                r"Not enough resources to allocate \d+|No available node types can fulfill resource request|"
                r"Current node has no GPU available|Placement group bundle cannot have|"
                r"placement group .{0,60}(?:timed out|infeasible|cannot be (?:scheduled|created|fulfilled))",
                "vLLM v1/engine/utils.py (Ray data parallel), v1/executor/ray_utils.py; Ray's autoscaler",
            ),
            Signature(
                r"Tensor parallel size \(\d+\) exceeds available GPUs|"
                r"Waiting for creating a placement group of specs for (?!10 seconds)|"
                r"The following resource request cannot be scheduled right now|"
                r"could not find a node type to satisfy the request: .*\bGPU\b",
                "vLLM v1/executor/ray_utils.py, a warning before it waits; Ray's autoscaler",
                "0.6–0.33",
                weak=True,
                any_level=True,
            ),
            Signature(
                r"Ray does not allocate any GPUs on the driver node|You don't have enough GPUs available in a current|"
                r"local[_ ]rank \d+ is out of (?:bounds|range)|exceeds the number of visible \w+ devices|"
                r"--device-ids (?:index \d+ is out of range|provides \d+ devices)",
                "vLLM executor/ray_utils.py, v1/worker/gpu_worker.py, v1/worker/xpu_worker.py, engine/arg_utils.py",
                "0.5–0.33",
            ),
        ),
        ("gpu-count-mismatch", "mig-with-tensor-parallel"),
        meanings=(
            (
                r"Duplicate GPU",
                "'Duplicate GPU': NCCL needs a GPU for each rank. Two MIG devices of one GPU, "
                "or two of its time-sliced shares, are one GPU.",
            ),
        ),
    ),
    Cause(
        "no-gpu",
        "The container sees no GPU",
        "Needs resources.limits nvidia.com/gpu (or the GPU vendor's resource), a node with driver and device plugin, "
        "and "
        "runtimeClassName: nvidia if the cluster's default runtime is another. NVIDIA_VISIBLE_DEVICES must not be "
        "void.",
        (
            Signature(
                r"Failed to infer device type|Device string must not be empty",
                "vLLM config/device.py, before 0.11 config.py: the lines above may have another reason",
                "0.6–0.33",
                ambiguous=True,
                vague=True,
            ),
            Signature(
                r"No CUDA GPUs are available|Found no NVIDIA driver on your system|no CUDA-capable device is detected|"
                r"No HIP GPUs are available|cudaGetDeviceCount\(\).*\b(?:100|999)\b|"
                r"you might not have a CUDA gpu|CUDA unknown error - this may be due to|"
                r"0 active drivers \(\[\]\)|AMDSMI_STATUS_(?:DRIVER_NOT_LOADED|NO_DRV)|NVMLError_DriverNotLoaded",
                "PyTorch torch/cuda/__init__.py; CUDA runtime API; Triton runtime/driver.py; amdsmi; pynvml",
            ),
            Signature(
                r"NVML Shared Library Not Found|NVMLError_LibraryNotFound|could not load NVML library|"
                r"load library failed: libnvidia-ml|could not select device driver|nvml error: driver not loaded|"
                r"no runtime for \"nvidia\" is configured|unknown or invalid runtime name: nvidia|"
                r"RuntimeClass\S* \"?nvidia\S* not found",
                "pynvml; NVIDIA's device plugin; nvidia-container-cli; containerd",
            ),
            Signature(
                r"load library failed: libnvidia-ml|nvml error: driver not loaded|"
                r"no runtime for \"nvidia\" is configured|"
                r"RuntimeClass\S* \"?nvidia\S* not found",
                "nvidia-container-cli; containerd; the RuntimeClass admission plugin",
                channel="event",
            ),
            Signature(
                r"load library failed: libnvidia-ml|nvml error: driver not loaded|"
                r"no runtime for \"nvidia\" is configured",
                "nvidia-container-cli; containerd",
                channel="status",
            ),
            Signature(
                r"No platform detected, vLLM is running on UnspecifiedPlatform|NVML Shared Library Not Found|"
                r"No CUDA runtime is found|No devices found\. Waiting indefinitely|could not load NVML library",
                "vLLM platforms/__init__.py; PyTorch torch/utils/cpp_extension.py; NVIDIA's device plugin",
                "0.6–0.33",
                weak=True,
                any_level=True,
                vague=True,
            ),
        ),
        ("gpu-count-mismatch", "gpu-missing", "image-for-other-gpu"),
    ),
)
