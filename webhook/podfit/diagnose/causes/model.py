"""What is wrong with the model: its name, who may read it, its files, its architecture."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

CAUSES = (
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
        "Needs the tokenizer's files next to the weights, or --tokenizer, or the library that the line names.",
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
)
