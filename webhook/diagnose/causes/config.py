"""What is wrong with the command, the model's name, the image: it would fail on any node."""

from __future__ import annotations

from webhook.diagnose.cause import Cause, Signature

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
        "vLLM refuses an argument",
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
                "pydantic, around what vLLM's config classes refuse",
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
        "Needs a --tensor-parallel-size that divides attention heads, vocabulary and quantisation groups: "
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
        "vLLM is told to use more GPUs than the container has",
        "In one Pod: needs nvidia.com/gpu equal to tensor-parallel size × pipeline-parallel size × data-parallel size. "
        "Where several Pods have the GPUs together: needs --distributed-executor-backend ray in the Ray cluster of the "
        "Pods, or --nnodes (with --node-rank, --master-addr) without Ray; since 0.11.1 vLLM takes neither by itself.",
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
    Cause(
        "gated-model",
        "config",
        "The model's repository wants a token with access",
        "Accept the model's terms on its page, and give the container HF_TOKEN from a Secret.",
        (
            Signature(
                r"GatedRepoError|You are trying to access a gated repo|Cannot access gated repo",
                "huggingface_hub errors.py; transformers utils/hub.py",
            ),
            Signature(
                r"Access to model \S+ is (?:currently )?(?:restricted|gated)|Repo model \S+ is gated",
                "huggingface.co",
            ),
            Signature(
                r"403 Forbidden: .*(?:gated|token|authorized)|Cannot access content at: https://huggingface\.co",
                "huggingface_hub utils/_http.py",
            ),
            Signature(
                r"RepositoryNotFoundError: 401 Client Error",
                "huggingface_hub errors.py: the same answer as for a private one",
            ),
            Signature(
                r"\b40[13] (?:Client Error|Unauthorized|Forbidden)\b.*(?:huggingface\.co|hf\.co)|(?:huggingface\.co|"
                r"hf\.co)\S*.{0,40}\b(?:401|403) (?:Unauthorized|Forbidden)",
                "requests, httpx, huggingface_hub utils/_http.py",
            ),
            Signature(
                r"Invalid (?:user token|credentials in Authorization header|username or password)",
                "huggingface_hub hf_api.py; huggingface.co",
            ),
        ),
        ("gated-model-without-token",),
    ),
    Cause(
        "model-not-found",
        "config",
        "There is no such model, path or revision",
        "Check the name, and that a local path is where the volume is mounted and holds a config.json.",
        (
            Signature(
                r"RepositoryNotFoundError: 404|RevisionNotFoundError|404 Client Error.*huggingface\.co/api/models",
                "huggingface_hub errors.py",
            ),
            Signature(
                r"is not a local folder and is not a valid model identifier|Incorrect path_or_model_id|"
                r"is not a valid git identifier",
                "transformers utils/hub.py",
            ),
            Signature(
                r"HFValidationError|Repo id must (?:be in the form|use alphanumeric)",
                "huggingface_hub utils/_validators.py",
            ),
            Signature(
                r"Invalid repository ID or local directory specified", "vLLM transformers_utils/config.py", "0.8–0.33"
            ),
            Signature(
                r"does not appear to have a file named (?:config|params)\.json|"
                r"No such file or directory: '[^']*/config\.json'",
                "transformers utils/hub.py",
            ),
            Signature(r"Can't load the configuration of '", "transformers configuration_utils.py", weak=True),
        ),
        ("unknown-model", "model-cache-wrong-path"),
    ),
    Cause(
        "model-unsupported",
        "config",
        "This release can't run the model's architecture",
        "Needs a release of vLLM (and its transformers) that knows the architecture, or --model-impl transformers.",
        (
            Signature(
                r"Model architectures .{1,200} (?:are not supported|failed to be inspected)|"
                r"has no vLLM implementation and the Transformers",
                "vLLM model_executor/models/registry.py, model_executor/model_loader/utils.py",
                "0.5–0.33",
            ),
            Signature(
                r"does not recognize this architecture|Unrecognized model in |Unrecognized configuration class",
                "transformers models/auto/",
            ),
            Signature(
                r"`?rope_scaling`? must be a dictionary|Unrecognized keys in `rope_scaling`",
                "transformers modeling_rope_utils.py",
                weak=True,
            ),
            Signature(
                r"is not supported by ROCm for now|There is no module or parameter named",
                "vLLM platforms/rocm.py, models/utils.py",
                "0.5–0.33",
            ),
        ),
        ("unknown-model",),
    ),
    Cause(
        "trust-remote-code-needed",
        "config",
        "The model brings code of its own",
        "Read that code, pin --revision, and add --trust-remote-code.",
        (
            Signature(
                r"trust_remote_code=True|--trust-remote-code` flag in the CLI|"
                r"contains custom code which must be executed|requires you to execute the (?:configuration|"
                r"tokenizer) file",
                "transformers dynamic_module_utils.py; vLLM transformers_utils/config.py",
                "0.5–0.33",
            ),
        ),
        ("trust-remote-code-missing",),
    ),
    Cause(
        "tokenizer-missing",
        "config",
        "The tokenizer can't be loaded",
        "Needs the tokenizer's files beside the weights, or --tokenizer, or the library that the line names.",
        (
            Signature(
                r"Can't load tokenizer for '|Couldn't instantiate the backend tokenizer|requires the (?:SentencePiece|"
                r"protobuf|Tokenizers|tiktoken) library|Unable to load vocabulary from file",
                "transformers tokenization_utils_base.py, tokenization_utils_fast.py",
            ),
            Signature(
                r"Found \d+ files matching the pattern: .*Mistral tokenizer",
                "vLLM transformers_utils/tokenizers/mistral.py",
                "0.6–0.10",
            ),
        ),
    ),
    Cause(
        "chat-template-missing",
        "config",
        "The chat template's file is not there",
        "Mount the file that --chat-template names, or leave the flag out where the tokenizer has a template.",
        (
            Signature(
                r"supplied chat template (?:path doesn't exist|string \(.*appears path-like)",
                "vLLM entrypoints/chat_utils.py, 0.33 renderers/chat_utils/chat_template.py",
                "0.5–0.33",
            ),
        ),
    ),
    Cause(
        "weights-missing",
        "config",
        "The model's folder has no weights that vLLM can load",
        "Needs the files of the format that --load-format names, whole.",
        (
            Signature(
                r"Cannot find any (?:safetensors )?model weights with|No model weights found in|"
                r"weights were not initialized from checkpoint",
                "vLLM model_executor/model_loader/default_loader.py",
                "0.5–0.33",
            ),
        ),
    ),
    Cause(
        "port-in-use",
        "config",
        "The port is taken already",
        "Two containers of a Pod (and all Pods with hostNetwork: true) share their ports: give one another --port.",
        (
            Signature(
                r"\[Errno 98\]|[Aa]ddress already in use|EADDRINUSE|Only one usage of each socket address",
                "errno 98; asyncio, uvicorn, torch.distributed's TCPStore",
                unless=r"[Rr]etrying|trying port|[Uu]sing port|is already in use, trying",
            ),
        ),
    ),
    Cause(
        "service-link-clash",
        "config",
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
        "config",
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
                r"(?:bash|sh|dash|/bin/sh)\b.*: (?:line \d+: )?\S+: (?:command )?not found|can't open file '[^']*'|"
                r"No module named '?vllm\b",
                "bash, dash, Python",
            ),
        ),
        ("entrypoint-repeated", "argument-string-not-split"),
    ),
    Cause(
        "wrong-architecture",
        "config",
        "The image is built for another processor",
        "Needs an image for the node's architecture (arm64 on Grace), or a nodeSelector kubernetes.io/arch.",
        (
            Signature(r"exec format error", "Linux, errno 8"),
            Signature(r"exec format error", "Linux, errno 8, in the kubelet's words", channel="status"),
        ),
    ),
    Cause(
        "broken-install",
        "config",
        "The image's Python packages do not fit together",
        "Use vLLM's own image of a release, and install nothing over it without pinning what it needs.",
        (
            Signature(
                r"undefined symbol: |ImportError: (?:cannot import name|.*cannot open shared object file|"
                r".*version `GLIBC)|ModuleNotFoundError: No module named",
                "Python, ld.so",
                unless=r"libcuda\.so|No module named '?vllm\b",
            ),
            Signature(
                r"Segmentation fault|Segfault encountered|SIGSEGV|Illegal instruction|"
                r"'(?:EngineCore|Worker|VllmWorker)[\w-]*': -(?:4|11)\b|exit code:? -(?:4|11)\b",
                "Linux, signals 11 and 4; vLLM's stack trace handler",
                weak=True,
            ),
        ),
    ),
    Cause(
        "reference-missing",
        "config",
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
        "config",
        "vLLM itself stopped waiting for its engine",
        "Loading took longer than VLLM_ENGINE_READY_TIMEOUT_S (600 s): raise it, or load from a faster place.",
        (
            Signature(
                r"Timed out waiting for (?:new )?engine(?:s| core process)",
                "vLLM v1/engine/core_client.py",
                "0.9–0.33",
            ),
            Signature(r"RPC call to \S+ timed out", "vLLM v1/executor/multiproc_executor.py", "0.6–0.33", weak=True),
            Signature(r"Engine iteration timed out", "vLLM engine/async_llm_engine.py", "0.4–0.10", weak=True),
        ),
        ("startup-window-too-short",),
    ),
)
