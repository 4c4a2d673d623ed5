"""What `podfit plan -o NAME` writes: manifests ready for kubectl.

One module per name in `OUTPUTS`, each with `render(engine) -> str`: the YAML text with its comments. Raises
ValueError with what is missing if it cannot be written. Not here: sizing, which is `vllm/memory`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module

from podfit.rules.engine import Engine

OUTPUTS: Mapping[str, str] = {"yaml": "workload", "hpa": "hpa", "keda": "keda"}
"""What people type → the module of this room that writes it."""


def render(output: str, engine: Engine) -> str:
    """The manifests of one planned engine; raises ValueError with what is missing."""
    text: str = import_module(f"podfit.generate.{OUTPUTS[output]}").render(engine)
    return text


def slug(model: str) -> str:
    """ "Qwen/Qwen3-8B" → "qwen3-8b"; a label that begins with a letter, as a Service's name must."""
    plain = re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower())[:45].strip("-")
    return plain if plain[:1].isalpha() else f"m-{plain}".strip("-")
