from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile

from podfit.base.near import nearest
from podfit.kube.patch import Edit
from podfit.rules._flags import certainty, in_file, parser_near, substitute, uncertain, unknown
from podfit.rules.command_line import _meant
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, lines
from podfit.vllm.args import UnrecognizedFlag
from podfit.vllm.args.values import InvalidValueError, convert

SLIP = 0.88
"""Similarity from which on an unknown flag is a misspelled one of vLLM's rather than one of a newer release."""


class UnknownFlag(Rule):
    """No vLLM release knows this flag.

    vLLM's parser ends with exit code 2 before it loads anything, and the container restarts forever:

        vllm: error: unrecognized arguments: --max-num-chunked-tokens

    `removed-flag` reports a flag that an earlier or later release knows.
    """

    plane = "config"
    event = "vLLM exits with code 2"
    by_release = True
    of_parser = True
    mode = "deny"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: the table holds every flag of every release since 0.4."""
        for flag in unknown(engine):
            if flag.first is None:
                instead = _meant.FLAGS_OF_OTHERS.get(flag.flag.lower().replace("_", "-"))
                near = None if instead else flag.suggestion
                misspelled = near is not None and bool(nearest(flag.flag, (near,), cutoff=SLIP))
                yield Finding(
                    path=flag.path,
                    unknown_name=not (instead or misspelled),
                    certainty=certainty(engine),
                    uncertain=uncertain(engine),
                    message=f"no vLLM release knows {flag.flag!r}{in_file(engine, flag.index)}"
                    + (f"; did you mean {near}?" if near else ""),
                    details=("vLLM ends with exit code 2: unrecognized arguments",),
                    suggestions=(instead,) if instead else lines(_slip(engine, flag)),
                    fix=() if instead else _fix(engine, flag),
                )
        for flag in engine.args.unrecognized:
            what = f"vLLM {engine.release}" if engine.release else "what runs here"
            yield Finding(
                path=flag.path,
                certainty="likely" if flag.suggestion else "possible",
                uncertain=f"{what} may know more flags",
                message=f"no vLLM release that is known here knows {flag.flag!r}"
                f"{in_file(engine, flag.index)}" + (f"; did you mean {flag.suggestion}?" if flag.suggestion else ""),
            )


def _slip(engine: Engine, flag: UnrecognizedFlag) -> str | None:
    """The flag in its right spelling, if only one is as near as a slip of the hand and takes what is written for it.
    None otherwise."""
    words, known = engine.command.words, parser_near(engine)
    if flag.suggestion is None or known is None or in_file(engine, flag.index) or not 0 <= flag.index < len(words):
        return None  # without a suggestion none is near, or there are too many unknown flags to compare them
    near = _meant.slip_of(flag.flag, known.spellings)
    if near is None:
        return None
    option, _ = known.spellings[near]
    _, equals, value = words[flag.index].text.partition("=")
    after = (word.text for word in islice(words, flag.index + 1, None))
    values = [value] if equals else list(takewhile(lambda text: not text.startswith("-"), after))
    if option.nargs == 0:
        return None if values else near
    try:
        for row in values:
            convert(option, row, known.release)
    except InvalidValueError:
        return None
    return near if values else None


def _fix(engine: Engine, flag: UnrecognizedFlag) -> tuple[Edit, ...]:
    """The right spelling in its place, in vLLM's own image."""
    near = _slip(engine, flag) if certainty(engine) == "certain" else None
    if near is None:
        return ()
    _, equals, value = engine.command.words[flag.index].text.partition("=")
    return substitute(engine, flag.index, 1, f"{near}{equals}{value}")
