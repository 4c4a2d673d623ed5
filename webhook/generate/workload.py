"""`-o yaml`: a Deployment that serves the model, and the objects that it needs beside it."""

from __future__ import annotations

from webhook.engine import Engine


def render(engine: Engine) -> str:
    """The manifests; raises ValueError where model or GPU are not known."""
    if engine.model is None or engine.gpu is None:
        raise ValueError("a manifest needs a model and a GPU that are known")
    return ""
