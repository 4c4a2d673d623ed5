"""Rule unknown-flag."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.rules._flags import certainty, in_file, uncertain, unknown
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class UnknownFlag(Rule):
    """No vLLM release knows this flag.

    vLLM's parser ends with exit code 2 before it loads anything, and the container restarts forever:

        vllm: error: unrecognized arguments: --max-num-chunked-tokens

    `removed-flag` reports a flag that an earlier or later release knows.
    """

    plane = "config"
    event = "vLLM exits with code 2"
    of_parser = True
    mode = "deny"
    needs = ("vllm_args",)
    about = ("unknown flags",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: the table holds every flag of every release since 0.4."""
        for flag in unknown(engine):
            if flag.first is None:
                yield Finding(
                    path=flag.path,
                    certainty=certainty(engine),
                    uncertain=uncertain(engine),
                    message=f"no vLLM release knows {flag.flag!r}{in_file(engine, flag.index)}"
                    + (f"; did you mean {flag.suggestion}?" if flag.suggestion else ""),
                    details=("vLLM ends with exit code 2: unrecognized arguments",),
                )
        for flag in engine.args.unheard:
            what = f"vLLM {engine.release}" if engine.release else "what runs here"
            yield Finding(
                path=flag.path,
                certainty="likely" if flag.suggestion else "possible",
                uncertain=f"{what} may know more flags",
                message=f"no vLLM release that is known here knows {flag.flag!r}"
                f"{in_file(engine, flag.index)}" + (f"; did you mean {flag.suggestion}?" if flag.suggestion else ""),
            )
