"""Causes while vLLM serves: requests that it rejects, an engine that stalls or died."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

CAUSES = (
    Cause(
        "chat-template-missing",
        "The model has no chat template, or its file is not there",
        "Mount a template file and name it with --chat-template. A base model has none: use its instruct version, or "
        "/v1/completions.",
        (
            Signature(
                r"supplied chat template (?:path doesn't exist|string \(.*appears path-like)",
                "vLLM entrypoints/chat_utils.py, 0.33 renderers/chat_utils/chat_template.py",
                "0.5–0.33",
            ),
            Signature(
                r"default chat template is no longer allowed|you must provide a chat template|"
                r"tokenizer\.chat_template is not set|(?:Cannot use|can't use) (?:apply_)?chat_template|"
                r"does not have a chat template|No chat template is (?:set|defined)",
                "transformers tokenization_utils_base.py; vLLM entrypoints/chat_utils.py",
                "0.5–0.33",
                running=True,
            ),
        ),
    ),
    Cause(
        "tool-parser-missing",
        "Requests with tools are rejected: the server has no tool parser",
        "Add --enable-auto-tool-choice and --tool-call-parser with the model's parser (hermes for Qwen 2.5, "
        "llama3_json for Llama 3.1; `podfit check` lists those of the release).",
        (
            Signature(
                r"tool choice requires --enable-auto-tool-choice|requires --tool-call-parser to be set|"
                r"tool_choice=\S+ requires --tool-call-parser|Tool usage is only supported (?:for|in)",
                "vLLM entrypoints/openai/serving_chat.py, from 0.16 chat_completion/serving.py",
                "0.6–0.33",
                running=True,
            ),
            Signature(
                r"[Tt]ool [Pp]arser could not locate tool call start/end tokens",
                "vLLM entrypoints/openai/tool_parsers/, from 0.15 tool_parsers/: the parser is another model's",
                "0.6–0.33",
            ),
        ),
        ("unknown-parser",),
        meanings=(
            (
                r"could not locate tool call",
                "'could not locate tool call start/end tokens': --tool-call-parser is that of another model.",
            ),
        ),
    ),
    Cause(
        "engine-stalled",
        "The engine has running requests and produces no token",
        "The API answers, so /health does not notice it. Look for the first error above, at `nvidia-smi` and at the "
        "other ranks. Restart the Pod; a probe that sends a short completion would notice it.",
        (
            Signature(
                r"RPC call to (?:execute_model|sample_tokens|execute_dummy_batch) timed out",
                "vLLM v1/executor/multiproc_executor.py, after VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
                "0.8–0.33",
                weak=True,
            ),
            Signature(
                r"Avg prompt throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 tokens/s,.* "
                r"Running: [1-9]\d* reqs",
                "vLLM v1/metrics/loggers.py, engine/metrics.py: every line of at least 60 s",
                "0.2–0.33",
                channel="statistics",
            ),
        ),
        plane="gpu",
    ),
    Cause(
        "engine-dead-exit-zero",
        "The engine died, but the server exited with code 0",
        "vLLM exits with 0 after EngineDeadError, so a Job counts as complete and restartPolicy: OnFailure restarts "
        "nothing. Set restartPolicy: Always (a Deployment has it), or make the command fail: "
        "`sh -c 'vllm serve …; exit 1'`. Why the engine died is in the log above EngineDeadError.",
        (
            Signature(
                r"^Completed \(exit code 0\)",
                "vLLM entrypoints/launcher.py (vllm#48966), if the log has EngineDeadError",
                channel="status",
                weak=True,
            ),
            Signature(
                r"exited with code 0\b|ExecMainStatus=0|exit status 0\b",
                "docker compose, systemd, if the log has EngineDeadError",
                weak=True,
                any_level=True,
            ),
        ),
        ("dead-engine-exits-zero",),
    ),
)
