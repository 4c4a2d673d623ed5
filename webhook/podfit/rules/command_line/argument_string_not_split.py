from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules._flags import certainty, dropped, substitute, unsplit
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.args.flags import builtin
from podfit.vllm.command.entry import split
from podfit.vllm.command.word import Slip, Word

_SPACED = regex(r"(--?[A-Za-z][\w.-]*)\s+=\s*(?=\S)")
"""`--port = 8000`: blanks around the sign."""
_PLAIN = regex(r"(?!=)[\w./:,%@+=-]+")
"""A value that needs no quotes in a shell: one word, and what is meant is clear."""


class ArgumentStringNotSplit(Rule):
    """One item of the argument list holds a flag and its value.

    Kubernetes passes each item of `command` and `args` to the program as one word; no shell splits it. Then vLLM looks
    for a flag called `--max-model-len 4096`, finds none, and ends with exit code 2. Write two items, or
    `--max-model-len=4096`. If the first item is a whole line (`command: ["vllm serve MODEL"]`), it names a program that
    does not exist, and the container does not even start.

    From vLLM 0.10 on, the module `vllm.entrypoints.openai.api_server` (the entrypoint of vLLM's images up to 0.11.0)
    takes one such item for a positional argument, ignores it, and starts without the flag. That is a warning.
    """

    plane = "config"
    event = "vLLM exits with code 2"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: no flag has a blank in its name."""
        slip = engine.command.slip
        if slip is not None and slip.unsplit:
            yield Finding(
                path=slip.path or engine.command.path,
                message=slip.why,
                suggestions=(_items(slip.instead),),
                fix=_split_fix(engine, slip),
            )
        ignored = dropped(engine)
        for index, word in engine.once(unsplit).items():
            if word is ignored:
                yield _dropped(engine, index, word)
                continue
            flag, words = word.text.split()[0], _words(word.text)
            if _is_one_value(words):
                yield Finding(
                    path=word.path,
                    message=f"{word.text!r} is one word: no shell splits it into flag and value",
                    certainty=certainty(engine),
                    suggestions=(_items([words[0], " ".join(words[1:])]), *_several(engine, words)),
                )
                continue
            words, plain = _as_one(words)
            two = index in {error.index for error in engine.args.errors}  # --max-model-len=4096 --port=8001
            refused = "=" not in flag or flag.startswith("--model=") or two
            yield Finding(
                path=word.path,
                message=f"{word.text!r} is one word: no shell splits it into flag and value",
                certainty=certainty(engine) if refused else "likely",
                suggestions=(_as_list(engine, word, words) or (words[0] if len(words) == 1 else _items(words)),),
                fix=substitute(engine, index, 1, *words) if plain and ("=" not in flag or two) else (),
            )


def _dropped(engine: Engine, index: int, word: Word) -> Finding:
    """An item that is not an error: vLLM starts without it."""
    words, plain = _as_one(_words(word.text))
    return Finding(
        path=word.path,
        message=f"{word.text!r} is one word: the api_server module takes it for a positional argument and ignores it",
        certainty="likely",
        uncertain="vLLM starts, without this argument",
        suggestions=(words[0] if len(words) == 1 else _items(words),),
        fix=substitute(engine, index, 1, *words) if plain else (),
    )


def _as_one(words: list[str]) -> tuple[list[str], bool]:
    """The words, a flag and its value as one (`--flag=value`) if both are plain; and whether all words are plain
    (`_PLAIN`)."""
    plain = all(map(_PLAIN.fullmatch, words))
    return ["=".join(words)] if len(words) == 2 and "=" not in words[0] and plain else words, plain


def _words(text: str) -> list[str]:
    """The words that one item was meant to be. A value in quotes or brackets is one word, whatever it holds."""
    flag, value = text.split(maxsplit=1)
    joined = value[0] == "=" and value.strip() != "="
    if joined:
        value = value[1:].lstrip()
    if value[0] in "{['\"":
        return [f"{flag}={value}"] if joined else [flag, value]
    return split(_SPACED.sub(r"\1=", text))


def _is_one_value(words: Sequence[str]) -> bool:
    """True for `--served-model-name my model`: no other flag follows, so that the blank may be the value's."""
    return len(words) > 2 and "=" not in words[0] and not any(word.startswith("-") for word in words[1:])


def _several(engine: Engine, words: Sequence[str]) -> tuple[str, ...]:
    """The suggestion to split the text into several values; empty unless the flag takes several."""
    option = (
        builtin().parser(engine.release or builtin().releases[-1], "serve").spellings.get(words[0].replace("_", "-"))
    )
    return (_items(words),) if option is not None and option[0].nargs == "+" else ()


def _as_list(engine: Engine, word: Word, words: Sequence[str]) -> str | None:
    """The suggestion to write the whole field as a list; None if it is one already."""
    if word.path.parts[-1:] != (0,) or not isinstance(FieldPath(word.path.parts[:-1]).get(engine.workload.object), str):
        return None
    return f"{word.path.parts[-2]}: {json.dumps(list(words), ensure_ascii=False)}"


def _items(words: Sequence[str]) -> str:
    """`two items: "--flag", "value"`, for people."""
    counts = {2: "two", 3: "three", 4: "four"}
    return f"{counts.get(len(words), len(words))} items: " + ", ".join(f'"{word}"' for word in words)


def _split_fix(engine: Engine, slip: Slip) -> tuple[Edit, ...]:
    """The edit that replaces the item by the intended ones; none if it has a variable or came from elsewhere."""
    path = slip.path
    if path is None or "$" in slip.text or path.get(engine.workload.object) != slip.text:
        return ()
    return (Edit(FieldPath(path.parts[:-1]), ([slip.text], list(slip.instead)), "swap"),)
