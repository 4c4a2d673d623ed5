"""The manifests of `podfit plan -o NAME`, ready for kubectl.

One module per name in `OUTPUTS`, each with `render(engine) -> str`: the YAML text with its comments. Raises
ValueError with what is missing if it cannot be written. Not here: sizing, which is `vllm/memory`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module

from podfit.rules.engine import Engine
from podfit.vllm import gpu
from podfit.vllm.gpu import Accelerator

OUTPUTS: Mapping[str, str] = {"yaml": "workload", "hpa": "hpa", "keda": "keda"}
"""Name of an output → the module of this package that writes it."""


def render(output: str, engine: Engine, other_labels: Sequence[str] = ()) -> str:
    """The manifests of one planned engine; raises ValueError with what is missing. `other_labels`: labels of other GPU
    models that the same name may mean, for the comment."""
    text: str = import_module(f"podfit.generate.{OUTPUTS[output]}").render(engine)
    labels = " or ".join(other_labels)
    comment = f"# the GPU that was named may also be another model: its label is {labels}\n" if labels else ""
    return comment + text


def other_labels(named: Accelerator | None, product: str | None = None) -> tuple[str, ...]:
    """Labels of the GPU models that a name also means, besides the one in the manifest (`product`, or the
    commonest)."""
    if named is None or len(named.gpus) < 2:
        return ()
    written = product or next(iter(gpu.commonest(named.gpus).labels), None)
    return tuple(
        other_gpu.labels[0] for other_gpu in named.gpus if other_gpu.labels and written not in other_gpu.labels
    )


def slug(model: str) -> str:
    """ "Qwen/Qwen3-8B" → "qwen3-8b"; a label that begins with a letter, as a Service's name must."""
    plain = re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower())[:45].strip("-")
    return plain if plain[:1].isalpha() else f"m-{plain}".strip("-")
