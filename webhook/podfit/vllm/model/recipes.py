"""Recipes: the least vLLM release and the parsers that vLLM's maintainers name for a model (facts/recipes.jsonl)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
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
    """The least release with which the recipe was made or tested."""
    tool_call_parsers: tuple[str, ...]
    reasoning_parsers: tuple[str, ...]
    source: str

    def parsers(self, kind: Kind) -> tuple[str, ...]:
        """The parsers of this kind, () if the recipe names none."""
        return self.tool_call_parsers if kind == "tool_call_parser" else self.reasoning_parsers

    @property
    def suggestion(self) -> str:
        """The recommendation, for people: "vLLM 0.24.0 or newer, --tool-call-parser minimax_m3"."""
        parts = [f"vLLM {self.minimum} or newer"] if self.minimum else []
        for flag, names in (("tool-call", self.tool_call_parsers), ("reasoning", self.reasoning_parsers)):
            parts += [f"--{flag}-parser {' or '.join(names)}"] if names else []
        return ", ".join(parts)


def of(model: str) -> Recipe | None:
    """The recipe of exactly this model, or of the model that it is listed as a copy of."""
    row = data.rows("recipes").get(model.lower())
    return None if row is None else _recipe(json.loads(row))


ID = regex(r"[\w.-]+/[\w.-]+")


def is_id(model: str) -> bool:
    """True if it is the id of a model on the hub, and neither a path nor a placeholder."""
    return ID.fullmatch(model) is not None


def parsers_of(model: str, kind: Kind) -> tuple[str, ...]:
    """The parsers that the model's own recipe names, else those of its family; () if they are unknown."""
    recipe = of(model)
    return (recipe.parsers(kind) if recipe else ()) or parsers_of_family(model, kind)


def parsers_of_family(model: str, kind: Kind) -> tuple[str, ...]:
    """The parsers that the recipes of a model's family name; () if none does, or if two recipes differ in the format.

    A family has the same name but for sizes, dates, and words for tunings and stored types."""
    return families(kind).get(family(model), ())


@cache
def families(kind: Kind) -> dict[str, tuple[str, ...]]:
    """Family → the parsers that its recipes name, without families of which two recipes differ in the format."""
    named: dict[str, list[tuple[str, ...]]] = {}
    for row in data.rows("recipes").values():
        recipe = _recipe(json.loads(row))
        if names := recipe.parsers(kind):
            named.setdefault(family(recipe.id), []).append(names)
    return {name: tuple(dict.fromkeys(_flat(items))) for name, items in named.items() if _agree(items, kind)}


def _agree(recipes: list[tuple[str, ...]], kind: Kind) -> bool:
    """True if each recipe of a family names a parser for the format of the first one."""
    return all(any(same_format(name, text, kind) for name in names for text in recipes[0]) for names in recipes)


def _flat(recipes: Iterable[tuple[str, ...]]) -> Iterable[str]:
    """The names of all recipes, in their order."""
    return (name for names in recipes for name in names)


def same_format(parser: str, other: str, kind: Kind) -> bool:
    """True if both parsers read the same format, as far as is known."""
    if parser == other or not {parser, other}.isdisjoint(ANY_FORMAT):
        return True
    if kind == "reasoning_parser":
        return {parser, other} <= THINKS
    return any({parser, other} <= alike for alike in SAME_TOOL_FORMAT)


def family(model: str) -> str:
    """The name of a model's family: "qwen3" for Qwen/Qwen3-235B-A22B-Instruct-2507-FP8."""
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
