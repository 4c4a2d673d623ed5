"""Causes in the model: its name, who may read it, its files, its architecture."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

CAUSES = (
    Cause(
        "gated-model",
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
                r"\b40[13] (?:Client Error|Unauthorized|Forbidden)\b.*(?:huggingface\.co|hf\.co)|(?:huggingface\.co|"
                r"hf\.co)\S*.{0,40}\b(?:401|403) (?:Unauthorized|Forbidden)",
                "requests, httpx, huggingface_hub utils/_http.py",
                unless=r"RepositoryNotFoundError|Repository Not Found",
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
        "There is no such model or path, or no right to read it",
        "Check the name, and that a local path is where the volume is mounted and holds a config.json. A private model "
        "needs HF_TOKEN: without a right to read it, huggingface.co answers as for a wrong name.",
        (
            Signature(
                r"RepositoryNotFoundError|Repository Not Found for url|404 Client Error.*huggingface\.co/api/models",
                "huggingface_hub errors.py: the same for a wrong name and for a private model",
                ambiguous=True,
            ),
            Signature(
                r"is not a local folder and is not a valid model identifier|Incorrect path_or_model_id",
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
            Signature(
                r"No adapter found for|Failed to load mistral 'params\.json'|"
                r"Could not find (?:checkpoint|config) files? ",
                "vLLM lora/worker_manager.py, transformers_utils/config.py, model_executor/model_loader/",
                "0.6–0.33",
            ),
            Signature(r"Can't load the configuration of '", "transformers configuration_utils.py", weak=True),
        ),
        ("unknown-model", "model-cache-wrong-path", "model-path-missing", "placeholder-value"),
        meanings=(
            (
                r"No adapter found",
                "An adapter's folder holds adapter_config.json; its path is that of --lora-modules or of the request.",
            ),
        ),
    ),
    Cause(
        "revision-missing",
        "The model has no such revision",
        "Correct --revision (or --tokenizer-revision, --code-revision): a branch, tag or full commit of the "
        "repository.",
        (
            Signature(
                r"RevisionNotFoundError|Revision Not Found for url|is not a valid git identifier|"
                r"Invalid rev id|revision .{0,80} does not exist",
                "huggingface_hub errors.py; transformers utils/hub.py",
            ),
        ),
    ),
    Cause(
        "model-unsupported",
        "This release can't run the model's architecture",
        "Needs a release of vLLM (and its transformers) that knows the architecture, or --model-impl transformers.",
        (
            Signature(
                r"Model architectures .{1,200} are not supported|"
                r"has no vLLM implementation and the Transformers|Cannot find model module\. '|"
                r"[Aa]rchitecture:? '?[\w.-]+'? (?:is )?not (?:yet )?supported|Unknown gguf model_type|"
                r"Model type \S+ (?:is )?not supported",
                "vLLM model_executor/models/registry.py, model_executor/model_loader/utils.py",
                "0.5–0.33",
            ),
            Signature(
                r"does not recognize this architecture|Unrecognized model in |Unrecognized configuration class",
                "transformers models/auto/",
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:NotImplementedError\b|(?:ValueError|AssertionError): .*support)",
                "vLLM's class of the model, of a variant that it does not have",
                "0.5–0.33",
                weak=True,
                innermost=r"vllm/(?:model_executor/)?models/\S+\.py",
            ),
            Signature(
                r"`?rope_scaling`? must be a dictionary|Unrecognized keys in `rope_scaling`",
                "transformers modeling_rope_utils.py",
                weak=True,
            ),
            Signature(
                r"is not supported by ROCm for now",
                "vLLM platforms/rocm.py",
                "0.5–0.33",
            ),
        ),
        ("unknown-model", "model-newer-than-release", "model-older-than-release"),
    ),
    Cause(
        "trust-remote-code-needed",
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
        "The tokenizer can't be loaded",
        "Needs the tokenizer's files next to the weights, or --tokenizer, or the library that the line names.",
        (
            Signature(
                r"Can't load tokenizer for '|Unable to load vocabulary from file|"
                r"Tokenizer file .{0,80}not found|No tokenizer file found|tokenizer\.(?:json|model)'? not found",
                "transformers tokenization_utils_base.py",
            ),
            Signature(
                r"Found \d+ files matching the pattern: .*Mistral tokenizer",
                "vLLM transformers_utils/tokenizers/mistral.py",
                "0.6–0.10",
            ),
        ),
    ),
    Cause(
        "weights-mismatch",
        "The checkpoint's files are not those that vLLM expects of this model",
        "Check that config.json, weights and tokenizer are of one checkpoint and complete. Look for a fine-tune or "
        "quantization that this release can't read: try a newer release, --quantization, --load-format or "
        "another checkpoint.",
        (
            Signature(
                r"weights were not initialized from checkpoint|There is no module or parameter named|"
                r"^(?:RuntimeError: )?size mismatch for \S+: copying|Attempted to load weight \(|"
                r"[Tt]rying to (?:set a tensor of shape|load .{0,40}weights? .{0,40}shape)|"
                r"Error\(s\) in loading state_dict|(?:Missing|Unexpected) key\(s\) in (?:state_dict|checkpoint)|"
                r"[Ss]hape mismatch .{0,60}(?:weight|param)|(?:weight|parameter) \S+ (?:has|is of) (?:wrong )?shape",
                "vLLM model_executor/model_loader/, models/utils.py; PyTorch; transformers convert_slow_tokenizer.py",
                "0.4–0.33",
            ),
            Signature(
                r"Converting from (?:SentencePiece and )?[Tt]iktoken failed",
                "transformers convert_slow_tokenizer.py: the tokenizer's files, or the library that reads them",
                ambiguous=True,
            ),
            Signature(
                r"^\s*KeyError: .(?:[\w-]+\.)*(?:layers|blocks|experts|model|visual|vision_\w+|language_model|"
                r"lm_head|"
                r"embed_tokens|transformer|encoder|decoder|mtp|norm|h)\.[\w.]*['\"]|"
                r"^\s*KeyError: .(?:[\w-]+\.)+\w*(?:weight|bias|scale|qweight|qzeros|scales|g_idx|"
                r"zero_point)\w*['\"]",
                "vLLM model_executor/models/, params_dict[name]: a name of the checkpoint that the model has not",
                "0.2–0.33",
            ),
            Signature(
                r"^\s*(?:AssertionError\s*$|KeyError: |RuntimeError: (?:start \(|"
                r"The (?:expanded )?size of (?:the )?tensor|"
                r"shape ')|ValueError: .*(?:shape|param|weight)|IndexError|AttributeError: .*weight_loader)",
                "vLLM model_executor/models/, layers/linear.py, parameter.py, inside of load_weights",
                "0.4–0.33",
                within=r"\bload_weights\b|weight_loader|_load_module|load_\w+_weight\b",
                ambiguous=True,
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:ValueError|RuntimeError|KeyError|AssertionError|TypeError|IndexError|AttributeError)\b",
                "vLLM model_executor/model_loader/, lora/: raised while a checkpoint or an adapter is read",
                "0.4–0.33",
                weak=True,
                innermost=r"vllm/(?:model_executor/model_loader/\S+|lora/(?:lora_model|models|peft_helper|utils|"
                r"worker_manager|model_manager))\.py",
                unless=r"[Nn]o free|slots\b",
            ),
        ),
        ("quantization-mismatch", "model-newer-than-release"),
        meanings=(
            (
                r"\bLoRA\b|\blora\b|base_model\.model",
                "The checkpoint is a LoRA adapter: its target modules must be ones that vLLM adapts, without "
                "modules_to_save.",
            ),
            (
                r"Tiktoken|tiktoken",
                "The checkpoint has no tokenizer.json that transformers reads: copy the base model's tokenizer files, "
                "or "
                "name them with --tokenizer.",
            ),
            (
                r"_bias'|_bias\b.*KeyError",
                "The checkpoint has biases that the model's class does not load for this quantization.",
            ),
        ),
    ),
    Cause(
        "weights-missing",
        "The model's folder has no weights that vLLM can load",
        "Needs the files of the format that --load-format names, whole.",
        (
            Signature(
                r"Cannot find any (?:safetensors )?model weights with|No model weights found in",
                "vLLM model_executor/model_loader/default_loader.py",
                "0.5–0.33",
            ),
        ),
    ),
)
