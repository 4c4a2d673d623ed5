from __future__ import annotations

from collections.abc import Iterator

from podfit.base.near import nearest
from podfit.rules._flags import is_since, life, named, uncertain, value_certainty
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.args import settings
from podfit.vllm.release import Release

PLUGINS = ("tool_parser_plugin", "reasoning_parser_plugin")
WITHOUT_A_SWITCH = Release(0, 9)
"""Until then `--reasoning-parser` only counts with `--enable-reasoning` (vLLM 0.8.5 openai/api_server.py)."""


class UnknownParser(Rule):
    """This vLLM release has no tool or reasoning parser of that name.

    vLLM looks the names of `--tool-call-parser` (with `--enable-auto-tool-choice`) and `--reasoning-parser` up before
    it loads the model, and ends if it has none (entrypoints/openai/api_server.py, validate_api_server_args):

        KeyError: 'invalid tool call parser: qwen3 (chose from { deepseek_v3,deepseek_v31,ernie45,glm45,hermes,… })'
        KeyError: 'invalid reasoning parser: deepseek-r1 (chose from { deepseek_r1,glm45,granite,qwen3,… })'

    Most releases add some for their new models. Custom parsers come with `--tool-parser-plugin` or
    `--reasoning-parser-plugin`; then the rule reports nothing.
    """

    plane = "config"
    event = "vLLM exits before it answers"
    by_release = True
    of_parser = True
    mode = "deny"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: the names are read off each release's sources."""
        args = engine.args
        if (
            not engine.served
            or args.get("grpc")
            or any(text in args.given or text in args.unresolved for text in PLUGINS)
        ):
            return
        if engine.command.env.get("VLLM_USE_RUST_FRONTEND", "0") != "0":
            return
        kinds = []
        if args.given.get("enable_auto_tool_choice"):
            kinds.append("tool_call_parser")
        if args.given.get("enable_reasoning") or is_since(engine, WITHOUT_A_SWITCH):
            kinds.append("reasoning_parser")
        for kind in kinds:
            name = args.given.get(kind)
            if not isinstance(name, str) or not name or not args.is_sure(kind):
                continue
            refusal = settings.unknown_name(kind, name, engine.release)
            if refusal is None:
                continue
            near = nearest(name, refusal.allowed, cutoff=0.7)
            yield Finding(
                path=engine.argument(kind),
                certainty=value_certainty(engine),
                unknown_name=refusal.first is None,
                uncertain=uncertain(engine),
                message=f"{named(engine)} has no {'tool' if kind[0] == 't' else 'reasoning'} parser "
                f"{name!r}{life(refusal, engine.release)}" + (f"; did you mean {near[0]!r}?" if near else ""),
                details=(f"it has {', '.join(refusal.allowed)}",),
                suggestions=(change.flags(f"--{kind.replace('_', '-')} {near[0]}"),) if near else (),
            )
