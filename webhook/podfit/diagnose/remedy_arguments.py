"""A line with which vLLM rejects its arguments → the change that helps, with the line's own values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base.near import nearest
from podfit.vllm.args.flags import builtin

LEAST_LIKENESS = 0.75
"""The minimum likeness (0 to 1) of a flag that is suggested for an unknown one: `--max-model-length` and
`--max-model-len` are 0.93 alike, `--temperature` and `--chat-template` 0.67."""
OF_REQUESTS = frozenset(
    ("temperature", "top-p", "top-k", "min-p", "max-tokens", "repetition-penalty", "presence-penalty",
     "frequency-penalty", "stop", "logprobs")
)  # fmt: skip
"""Parameters of requests (vLLM sampling_params.py) that people give to the server."""
FEATURES = {
    "Concurrent Partial Prefill": "--max-num-partial-prefills",
    "Async": "--async-scheduling",
    "Encoder-decoder": "the model",
}
"""Names of features in vLLM's messages (engine/arg_utils.py) → the argument that asks for them."""
MODEL_FEATURES = {"LoRA": "--enable-lora", "BitsAndBytes": "--quantization bitsandbytes"}
"""Features that each class of a model supports or not → the argument that asks for them."""


def wrong_flag(text: str) -> Iterator[str]:
    """The changes for a rejected command line, by the first form of vLLM's message that `text` has; none for another
    message."""
    if match := re.search(r"unrecognized arguments?:? (.*)", text):
        flags = dict.fromkeys(re.findall(r"(?<!\S)--?[A-Za-z][\w-]*", match[1]))
        yield from map(_unknown, flags)
        if not flags:
            word = match[1].split()[0]
            yield (
                f"{word} is neither an option nor the value of one. A model is given once, as --model or as the word "
                "after `vllm serve`: vLLM's image runs that itself, so its args begin with the model."
            )
    elif "argument --compilation-config/-O: " in text and (match := re.search(r"input_value=(\d)", text)):
        level = match[1]
        yield f'Write -O{level} as one word, or give --compilation-config an object, such as {{"mode": {level}}}.'
    elif match := re.search(r"argument (--[\w-]+)[^:]*: invalid choice: '([^']*)' \(choose from ([^)]*)\)", text):
        near = next(iter(nearest(match[2], re.findall(r"[^\s',]+", match[3]))), None)
        yield f"Replace {match[1]} {match[2]} with {match[1]} {near}." if near else f"{match[1]} takes {match[3]}."
    elif match := re.search(r"argument (--[\w-]+)[^:]*: invalid (int|float) value: '([^']*)'", text):
        kind = "a whole number" if match[2] == "int" else "a number"
        yield f"Write {kind} for {match[1]}, instead of {match[3]!r}."
    elif match := re.search(r"max_num_batched_tokens \((\d+)\) is smaller than max_model_len \((\d+)\)", text):
        tokens, length = match[1], match[2]
        yield f"Raise --max-num-batched-tokens from {tokens} to {length}, or lower --max-model-len to {tokens}."
    elif match := re.search(r"Model (\S+) does not support (LoRA|BitsAndBytes)", text):
        flag = MODEL_FEATURES[match[2]]
        yield f"Remove {flag}: vLLM's class of this model, {match[1]}, does not support {match[2]}."
    elif re.search(r"provide the model as a positional argument|arguments are required: model_tag", text):
        yield "Write the model as the first word after `vllm serve` (in vLLM's image: of args), without --model."
    elif match := re.search(r"`(\w+)` is only supported for multimodal models", text):
        flag = match[1].replace("_", "-")
        yield (
            f"Remove --{flag}: this release takes the model for one of text only. If the model reads images, use a "
            "newer release, whose class of the model does."
        )
    elif match := re.search(r"NotImplementedError: (\S.*?) is not supported", text):
        flag = FEATURES.get(match[1], match[1])
        if flag.startswith("--"):
            yield f"Remove {flag}: this release does not support it here."


def _unknown(flag: str) -> str:
    """Advice about a flag that the release does not know."""
    dashed = flag.replace("_", "-")
    if dashed.lstrip("-") in OF_REQUESTS:
        name = dashed.lstrip("-").replace("-", "_")
        return (
            f"Remove {flag}: it is a parameter of requests (default: --override-generation-config '{{\"{name}\": …}}')."
        )
    known = builtin().spellings
    alike = () if dashed in known else nearest(dashed, known, cutoff=LEAST_LIKENESS)
    near = next((text for text in alike if text.count("-") == dashed.count("-")), None)  # a word more is another option
    return f"Replace {flag} with {near}." if near else f"Remove {flag}."


def speculative(text: str) -> Iterator[str]:
    """The change of --speculative-config for a line that names the key."""
    if match := re.search(r"draft_tensor_parallel_size=(\d+) cannot be other value than 1 or", text):
        yield f"Set draft_tensor_parallel_size to 1 in --speculative-config, instead of {match[1]}."
    elif "num_speculative_tokens must be provided" in text:
        yield 'Add "num_speculative_tokens" to --speculative-config, such as 3: the draft model names no number.'


def unquantized(text: str) -> Iterator[str]:
    """The change for --quantization with a checkpoint that is not quantized so; none for another message."""
    if match := re.search(r"Cannot find the config file for (\S+)", text):
        yield (
            f"Remove --quantization {match[1]}, or serve a checkpoint that was quantized with {match[1]}: this one has "
            "no quantize_config.json and no quantization_config."
        )


def lora_rank(text: str) -> Iterator[str]:
    """The --max-lora-rank for an adapter."""
    if match := re.search(r"LoRA rank (\d+) is greater than max_lora_rank (\d+)", text):
        size = next((number for number in LORA_RANKS if number >= int(match[1])), int(match[1]))
        yield f"Set --max-lora-rank {size}: the adapter's rank is {match[1]}, and {match[2]} is allowed."


LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The values that --max-lora-rank takes (vLLM config/lora.py)."""


def quantization_block(text: str, size: object) -> Iterator[str]:
    """The tensor-parallel size that leaves whole groups."""
    match = re.search(r"_(?:partition|per_partition) = (\d+) is not divisible by\s+[\w ]+ = (\d+)", text)
    if match and isinstance(size, int) and size > 1:
        total, group = int(match[1]) * size, int(match[2])
        fits = next((number for number in range(size - 1, 0, -1) if total % (number * group) == 0), 1)
        yield f"Set --tensor-parallel-size to {fits} instead of {size}: {total} in groups of {group} are divided by it."


def unwritable(text: str) -> Iterator[str]:
    """The path that a container can't write to, and what makes it writable."""
    path = re.search(r"['\"](/[^'\"]*)['\"]", text)
    name = path[1] if path else "the path"
    if re.search(r"Errno 30|Read-only file system|os error 30", text):
        yield (
            f"{name} is on a read-only mount: take readOnly: true off its volumeMount (and of the claim), or fill the "
            "volume first. Without a volume there, readOnlyRootFilesystem: true is the reason."
        )
        yield "fsGroup does not help. HF_HOME can name another folder for the model cache."
    elif re.match(r"/\.", name):
        yield (
            f"{name} is in the home of a user without one (/): set HOME to a writable folder, such as /tmp. "
            "TRITON_CACHE_DIR, HF_HOME and VLLM_CACHE_ROOT follow it unless they are set."
        )
    elif path:
        yield (
            f"The container's user may not write to {name}. Set securityContext.fsGroup of the Pod (for a volume), or "
            "make runAsUser the owner of the folder."
        )
