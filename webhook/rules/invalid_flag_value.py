"""Rule invalid-flag-value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from webhook.args import ArgumentError
from webhook.engine import Engine
from webhook.release import Release
from webhook.rule import Finding, Rule
from webhook.rules._flags import certainty, explained, in_file, spellings, substitute, unsplit


class InvalidFlagValue(Rule):
    """vLLM's parser refuses an argument.

    A value of the wrong type, a word that belongs to no flag, a missing value: the parser ends with exit code 2
    before it loads anything, for example

        vllm: error: argument --max-num-seqs: invalid int value: '1k'

    A `--port` above 65535 passes the parser and fails a moment later: `OverflowError: bind(): port must be 0-65535.`
    """

    plane = "config"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: read with that release's own grammar."""
        slip = engine.command.slip
        if slip is not None and not slip.unsplit:
            yield Finding(
                path=slip.path or engine.command.path,
                certainty=certainty(engine),
                message=slip.why,
                suggestions=(" ".join(slip.instead),),
            )
        yield from _model_id(engine)
        yield from _below_one(engine)
        for error in engine.args.errors:
            if error.index in explained(engine):
                continue
            instead = _switch(engine, error)
            yield Finding(
                path=error.path,
                certainty=certainty(engine),
                message=error.message + in_file(engine, error.index),
                details=(f"vLLM {engine.release or ''} ends with exit code 2 before it loads anything",),
                suggestions=(f"{instead[2]}: a switch takes no value",) if instead else (),
                fix=substitute(engine, *instead) if instead else (),
            )
        port = engine.args.given.get("port")
        if isinstance(port, int) and not 0 <= port < 1 << 16 and engine.served and not engine.args.get("uds"):
            yield Finding(
                path=engine.argument("port"),
                certainty=certainty(engine),
                message=f"argument --port: {port} is no port: 1 … 65535",
                suggestions=("--port 8000",),
            )


AT_LEAST_ONE = {
    "max_num_seqs": Release(0, 13),
    "max_num_batched_tokens": Release(0, 13),
    "tensor_parallel_size": Release(0, 24),
    "pipeline_parallel_size": Release(0, 24),
}
"""dest → since when its class says `ge=1` (vLLM 0.13 config/scheduler.py, 0.24 config/parallel.py)."""


def _below_one(engine: Engine) -> Iterator[Finding]:
    for dest, since in AT_LEAST_ONE.items():
        value = engine.args.given.get(dest)
        if not isinstance(value, int) or isinstance(value, bool) or value >= 1:
            continue
        if engine.release is not None and engine.release >= since:
            yield Finding(
                path=engine.argument(dest),
                certainty=certainty(engine),
                message=f"--{dest.replace('_', '-')} {value}: vLLM {engine.release} takes 1 and more",
                details=("vLLM ends with a validation error before it loads anything",),
            )


def _model_id(engine: Engine) -> Iterator[Finding]:
    """What no hub and hardly a folder is called: quotes that no shell has taken off, blanks, `$(MODEL)` as it is.

    huggingface_hub utils/_validators.py validate_repo_id; vLLM 0.33 transformers_utils/config.py get_config: "Invalid
    repository ID or local directory specified".
    """
    model = engine.args.model
    if model is None or re.match(r"[/.~]|\w+://", model) or engine.command.own_flags:
        return
    what = "blanks" if re.search(r"\s", model) else "quotes" if re.search("['\"]", model) else None
    if what is None or any(word.text in (model, f"--model={model}") for word in unsplit(engine).values()):
        return
    clean = re.sub(r"['\"\s]", "", model)
    yield Finding(
        path=engine.argument("model"),
        certainty=certainty(engine) if model.strip("'\" \t\r\n") != model else "likely",  # a folder may have a blank
        message=f"{model!r} is no model's id: {what} are part of it, since no shell takes them off"
        if not engine.command.shell
        else f"{model!r} is no model's id: {what} are part of it",
        suggestions=(clean,) if re.sub(r"['\"]", "", model).strip() == clean else (),
    )


def _switch(engine: Engine, error: ArgumentError) -> tuple[int, int, str] | None:
    """`--enable-x=true` and `--enable-x true` → the first word, how many there are, and the flag that is meant."""
    words = engine.command.words
    if not 0 <= error.index < len(words):
        return None
    first, count, text = error.index, 1, words[error.index].text
    if not text.startswith("--") and first > 0:
        first, count, text = first - 1, 2, f"{words[first - 1].text}={text}"
    flag, _, value = text.partition("=")
    if not flag.startswith("--") or flag.startswith("--no-") or value.lower() not in ("true", "false"):
        return None
    if not isinstance(engine.args.defaults.get(flag[2:].replace("-", "_"), False), bool):
        return None
    if value.lower() == "true":
        return first, count, flag
    negated = f"--no-{flag[2:]}"
    known = engine.release is not None and negated in spellings(engine)
    return (first, count, negated) if known else None
