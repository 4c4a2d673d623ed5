"""Differences that remain, and why; the table in docs/oracle.md is made of the same reasons."""

from __future__ import annotations

from collections.abc import Sequence

KNOWN: Sequence[tuple[str, str]] = (
    (
        r"unrecognized arguments: --(api-server-count|data-parallel-start-rank|grpc|headless)\b",
        "options that entrypoints/cli/serve.py adds are not in the parser that the oracle builds",
    ),
    (
        r"^value: max_(num_seqs|num_batched_tokens): \d+, vLLM -1 ",
        "0.11.0 takes the -1 of --max-model-len as an encoder's batch, which no engine runs with",
    ),
    (r"max_num_seqs: \d+, vLLM 0 ", "no engine runs with 0 sequences: vLLM 0.7 fails after its configuration stage"),
    (
        r"^KV cache: .*\[Qwen/Qwen3(-Next|\.5).* NVIDIA B200$",
        "the oracle takes FlashAttention's block size, which is larger there for heads of 256; vLLM takes FlashInfer",
    ),
    (
        r"vLLM rejects: .*(Model architectures \['NoSuchModel'\]|model-impl terratorch)",
        "a plugin or a library that the image adds may have the architecture",
    ),
    (
        r"vLLM rejects: .*(chat template string|Failed to load mistral 'params.json')",
        "the file may be in the image, in a volume or in the repository of the model",
    ),
    (
        r"vLLM rejects: .*--hf-overrides .*(text_config|num_attention_heads|rope_scaling|rope_parameters)",
        "--hf-overrides changes the config.json's structure in a way that Transformers or vLLM does not take",
    ),
    (
        r"vLLM rejects: .*(custom_ops\": \[\"all\", \"none\"\]|torch.float16 is not supported for .*mxfp4)",
        "custom_ops that exclude each other, and float16 that vLLM chooses for pooling with gpt-oss, are not checked",
    ),
    (
        r"max_num_batched_tokens: .* \[meta-llama/Llama-4-Scout",
        "the catalog keeps the text part of this config.json, from which podfit can't see that V0 batches for images",
    ),
    (
        r"vLLM rejects: .*The Transformers implementation of '\w+' is not compatible with vLLM",
        "whether a class of Transformers runs in vLLM depends on the Transformers of the image",
    ),
    (
        r"vLLM rejects: .*Cannot find the config file for deepspeedfp",
        "the method reads a file of the checkpoint, which may be there",
    ),
    (
        r"vLLM rejects: .*The quantization method mxfp8 is not supported for the current GPU.*Current capability: 70",
        "--quantization of an online method on a V100, which the image's CUDA 13 rejects (image-for-other-gpu)",
    ),
    (
        r"vLLM rejects: .*(prefill context parallelism \[type|--nnodes 2` must evenly divide).*--prefill-context",
        "which releases and model runners have prefill context parallelism is not checked",
    ),
    (
        r"^value: enable_prefix_caching: True, vLLM False .*--pooler-config",
        "0.11.0 switches prefix caching off for any --pooler-config, also of a model that generates text",
    ),
)
"""Pattern of `kind: text [model arguments] GPU` → why podfit differs there."""
