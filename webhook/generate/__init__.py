"""What `podfit plan -o NAME` writes: manifests ready for kubectl.

One module a NAME, which is in `OUTPUTS`, each with `render(engine) -> str`: the YAML text, comments and all; raises
ValueError with what is missing where it can't be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from webhook.rules.engine import Engine

OUTPUTS: Mapping[str, str] = {"yaml": "workload", "hpa": "hpa", "keda": "keda"}
"""What people type → the module of this room that writes it."""


def render(output: str, engine: Engine) -> str:
    """The manifests of one planned engine; raises ValueError with what is missing."""
    text: str = import_module(f"webhook.generate.{OUTPUTS[output]}").render(engine)
    return text
