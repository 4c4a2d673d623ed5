from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.args import settings
from podfit.vllm.model import recipes
from podfit.vllm.model.recipes import Kind

OWN_FORMAT = (
    "chat_template", "tool_parser_plugin", "reasoning_parser_plugin", "hf_overrides", "hf_config_path", "tokenizer",
)  # fmt: skip
"""Arguments with which the model may write another format, or another parser may read it."""


class ParserForAnotherModel(Rule):
    """The parser reads another format of tool calls, or of reasoning, than this model writes.

    Each family of models writes tool calls in its own format. With the parser of another family vLLM starts and
    answers, but finds no tool call: `tool_calls` is empty, and the call is in `content`, as text. A reasoning parser
    for another format leaves the reasoning in `content`, or takes the answer for reasoning.

    The parsers of a model are those that vLLM's recipes and documentation name for its family. Parsers that read each
    other's format are not reported. The rule reports nothing with a chat template, a parser plugin, another tokenizer
    or `--hf-overrides`. Nor does it for a model that is served from a path, or for a family whose recipes differ.
    """

    plane = "config"
    threatens = "practice"
    never_denies = "vLLM starts, and a checkpoint's chat template may differ from its family's"
    event = "tool calls, or reasoning, are returned as plain text"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """One finding per parser."""
        args = engine.args
        if not engine.served or any(name in args.given or name in args.unresolved for name in OWN_FORMAT):
            return
        model = args.model or ""
        if not recipes.is_id(model) or "model" in args.unresolved:
            return
        kinds: tuple[tuple[Kind, str], ...] = (("tool_call_parser", "tool calls"), ("reasoning_parser", "reasoning"))
        for kind, what in kinds:
            parser = args.given.get(kind)
            if not isinstance(parser, str) or not args.is_sure(kind):
                continue
            if settings.unknown_name(kind, parser, engine.release):  # which unknown-parser reports
                continue
            named = recipes.parsers_of(model, kind)
            if not named or any(recipes.same_format(parser, name, kind) for name in named):
                continue
            flag = f"--{kind.replace('_', '-')}"
            yield Finding(
                path=engine.argument(kind),
                certainty="possible",
                message=f"{flag} {parser} does not read the {what} of {model}; its recipe names {' or '.join(named)}",
                suggestions=(change.flags(f"{flag} {named[0]}"),),
            )
