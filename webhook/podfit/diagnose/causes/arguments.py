"""What vLLM rejects of its arguments, for this model and for the GPUs that the container has."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

CAUSES = (
    Cause(
        "max-model-len-too-long",
        "config",
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
        "wrong-flag",
        "config",
        "vLLM rejects an argument",
        "The line names the argument: a flag that this release does not know, a value it can't read, or two "
        "that contradict each other.",
        (
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
                r"disable)) .{0,60}--[a-z]|LoRA rank \d+ is greater than max_lora_rank|"
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
                r"^(?:[\w.]+\.)?(?:Value|NotImplemented|Assertion|Type|Key)Error: ",
                "vLLM, inside of the frames that read the command line",
                "0.4–0.33",
                weak=True,
                within=r"vllm/(?:config(?:/\w+)?|engine/arg_utils|entrypoints/\S*cli_args)\.py",
                rules=("conflicting-flags", "invalid-flag-value"),
            ),
        ),
        ("unknown-flag", "removed-flag", "invalid-flag-value", "conflicting-flags", "argument-string-not-split"),
    ),
    Cause(
        "tensor-parallel-indivisible",
        "config",
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
                r"not divisible by (?:weight quantization block_|\s*min_thread_|group_size|tp_size|TP\b)|"
                r"not aligned with the quantized weight shape|must be (?:positive and )?divisible by (?:the )?(?:tp\b|"
                r"tp_size|TP|tensor[ -]parallel)|heads .{0,60}divisible by .{0,20}(?:tensor|tp)",
                "vLLM model_executor/layers/quantization/, distributed/utils.py, models/",
                "0.5–0.33",
            ),
        ),
        ("tensor-parallel-indivisible",),
    ),
    Cause(
        "too-few-gpus",
        "config",
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
            Signature(
                r"Ray does not allocate any GPUs on the driver node|You don't have enough GPUs available in a current|"
                r"local[_ ]rank \d+ is out of (?:bounds|range)|exceeds the number of visible \w+ devices|"
                r"--device-ids (?:index \d+ is out of range|provides \d+ devices)",
                "vLLM executor/ray_utils.py, v1/worker/gpu_worker.py, v1/worker/xpu_worker.py, engine/arg_utils.py",
                "0.5–0.33",
            ),
        ),
        ("gpu-count-mismatch",),
    ),
    Cause(
        "no-gpu",
        "config",
        "The container sees no GPU",
        "Needs resources.limits nvidia.com/gpu (or the GPU vendor's resource), a node with the driver, and "
        "the runtime class of the cluster.",
        (
            Signature(
                r"Failed to infer device type|Device string must not be empty",
                "vLLM config/device.py, before 0.11 config.py",
                "0.6–0.33",
            ),
            Signature(
                r"No CUDA GPUs are available|Found no NVIDIA driver on your system|no CUDA-capable device is detected|"
                r"No HIP GPUs are available|cudaGetDeviceCount\(\).*\b(?:100|999)\b",
                "PyTorch torch/cuda/__init__.py; CUDA runtime API",
            ),
            Signature(
                r"NVML Shared Library Not Found|libcuda\.so(?:\.1)?: cannot open shared object file", "pynvml; ld.so"
            ),
        ),
        ("gpu-count-mismatch", "unknown-gpu", "image-for-other-gpu"),
    ),
)
