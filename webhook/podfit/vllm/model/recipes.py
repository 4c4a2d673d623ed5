"""Recipes: the least vLLM release and the parsers that vLLM's maintainers name for a model (facts/recipes.jsonl)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Literal

from podfit.base import data
from podfit.base.lazy import regex
from podfit.vllm.release import Release, parse

Kind = Literal["tool_call_parser", "reasoning_parser"]

SAME_TOOL_FORMAT = (
    frozenset({"hermes", "qwen3_json", "granite4"}),  # JSON in <tool_call>
    frozenset({"qwen3_coder", "qwen3_xml"}),  # <function=…><parameter=…>
    frozenset({"glm45", "glm47"}),  # <arg_key>, <arg_value>
    frozenset({"llama3_json", "llama4_json"}),
    frozenset({"pythonic", "llama4_pythonic", "olmo3"}),
)
"""Parsers that read each other's format (vLLM 0.33 tool_parsers)."""
ANY_FORMAT = frozenset({"hf", "xlam"})
"""Parsers that read several formats: `hf` follows the checkpoint's own template."""
THINKS = frozenset({
    "deepseek_r1", "deepseek_v3", "deepseek_v4", "deepseek_v41", "ernie45", "glm45", "glm47", "holo2", "hy_v3", "hy_v4",
    "kimi_k2", "ling3", "mimo", "minicpmv", "minimax_m2", "minimax_m2_append_think", "nemotron_v3", "olmo3",
    "poolside_v1", "qwen3", "step3", "step3p5", "step5",
})  # fmt: skip
"""Reasoning parsers that read <think>…</think>, with small differences (vLLM 0.33 reasoning)."""
SIZE = regex(r"[ae]?\d+(\.\d+)?[bmt]|\d+(x\d+b|e)|v0\.\d|\d{4}|w\d+a\d+")
"""Parts of a name that say a size, a date, or a minor version of a checkpoint."""
OF_A_COPY = frozenset({
    "instruct", "it", "chat", "base", "thinking", "think", "reasoning", "preview", "exp", "hf", "pt", "meta",
    "fp8", "nvfp4", "mxfp4", "mxfp8", "fp4", "awq", "gptq", "int4", "int8", "bf16", "bnb", "4bit", "8bit", "dynamic",
    "block", "quantized", "kv", "autoround", "unsloth", "gguf", "mlx",
})  # fmt: skip
"""Parts of a name that say how a model of the family is tuned or stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A recommendation of a model's maintainers."""

    id: str
    minimum: Release | None
    """The least release with which the recipe was made or tested; None if it names none."""
    tool_call_parsers: tuple[str, ...]
    """Values of `--tool-call-parser` from which the user chooses."""
    reasoning_parsers: tuple[str, ...]
    """Values of `--reasoning-parser` from which the user chooses."""
    source: str
    """The address of the recipe."""

    def parsers(self, kind: Kind) -> tuple[str, ...]:
        """The parsers of this kind, () if the recipe names none."""
        return self.tool_call_parsers if kind == "tool_call_parser" else self.reasoning_parsers

    @property
    def suggestion(self) -> str:
        """The recommendation, for people: "vLLM 0.24.0 or newer, --tool-call-parser minimax_m3"."""
        parts = []
        if self.minimum:
            parts.append(f"vLLM {self.minimum} or newer")
        if self.tool_call_parsers:
            parts.append(f"--tool-call-parser {' or '.join(self.tool_call_parsers)}")
        if self.reasoning_parsers:
            parts.append(f"--reasoning-parser {' or '.join(self.reasoning_parsers)}")
        return ", ".join(parts)


def of(model: str) -> Recipe | None:
    """The recipe of exactly this model (an id in any case), or of the model that it is listed as a copy of; None if
    there is none."""
    row = data.rows("recipes").get(model.lower())
    return None if row is None else _recipe(json.loads(row))


ID = regex(r"[\w.-]+/[\w.-]+")


def is_id(model: str) -> bool:
    """True if it is the id of a model on the hub, and neither a path nor a placeholder."""
    return ID.fullmatch(model) is not None


def parsers_of(model: str, kind: Kind) -> tuple[str, ...]:
    """The parsers that the model's own recipe names, else those of its family; () if they are unknown."""
    recipe = of(model)
    own = recipe.parsers(kind) if recipe else ()
    return own or parsers_of_family(model, kind)


def parsers_of_family(model: str, kind: Kind) -> tuple[str, ...]:
    """The parsers that the recipes of a model's family name; () if none does, or if two recipes differ in the format.

    A family has the same name but for sizes, dates, and words for tunings and stored types."""
    return families(kind).get(family(model), ())


@cache
def families(kind: Kind) -> dict[str, tuple[str, ...]]:
    """Family → the different parsers that its recipes name, in their order. Families whose recipes do not agree on a
    format are left out, and those that name no parser of this kind."""
    parsers_of_recipes: dict[str, list[tuple[str, ...]]] = {}  # family → the parsers of each of its recipes
    for row in data.rows("recipes").values():
        recipe = _recipe(json.loads(row))
        if parsers := recipe.parsers(kind):
            parsers_of_recipes.setdefault(family(recipe.id), []).append(parsers)
    agreeing: dict[str, tuple[str, ...]] = {}
    for name, recipes in parsers_of_recipes.items():
        first, *others = recipes
        if all(_share_format(first, parsers, kind) for parsers in others):
            agreeing[name] = tuple(dict.fromkeys([parser for parsers in recipes for parser in parsers]))
    return agreeing


def _share_format(parsers: Iterable[str], others: Iterable[str], kind: Kind) -> bool:
    """True if a parser of one recipe reads the format of a parser of another recipe."""
    return any(same_format(parser, other, kind) for parser, other in product(parsers, others))


def same_format(parser: str, other: str, kind: Kind) -> bool:
    """True if both parsers read the same format, as far as is known. They are equal, one of them is of ANY_FORMAT, or
    both are of one group: THINKS, or one of SAME_TOOL_FORMAT."""
    both = {parser, other}
    if parser == other or not both.isdisjoint(ANY_FORMAT):
        return True
    if kind == "reasoning_parser":
        return both <= THINKS
    return any(both <= alike for alike in SAME_TOOL_FORMAT)


def family(model: str) -> str:
    """The name of a model's family, by its id or its name: "qwen3" for Qwen/Qwen3-235B-A22B-Instruct-2507-FP8. These
    are the parts of the name that are neither a SIZE nor one of OF_A_COPY; "" if there are none."""
    parts = re.split(r"[-_]", model.rpartition("/")[2].lower())
    return "-".join(part for part in parts if part not in OF_A_COPY and not SIZE.fullmatch(part))


def _recipe(row: dict[str, Any]) -> Recipe:
    """The recipe of one row of facts."""
    return Recipe(
        id=row["id"],
        minimum=parse(row["minimum"]) if row.get("minimum") else None,
        tool_call_parsers=tuple(row.get("tool_call_parsers", ())),
        reasoning_parsers=tuple(row.get("reasoning_parsers", ())),
        source=row["source"],
    )
