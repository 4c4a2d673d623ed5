"""Rule unknown-model."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.model import ANNOTATION, annotated, nearest
from webhook.model.given import LABEL
from webhook.path import FieldPath
from webhook.rule import Finding, Rule


class UnknownModel(Rule):
    """The model is not known, so its memory can't be computed.

    podfit carries the shapes of some 1,800 published models and never asks the internet. For a path inside a volume,
    or a copy of a published model, name the model it has the shape of:

        metadata.annotations["podfit.dev/model"]: meta-llama/Llama-3.1-8B-Instruct

    A model of your own is taught once, for everybody: `podfit models add DIR` writes its config.json, and what it
    counted in its safetensors files, as a ConfigMap labelled `podfit.dev/model-config` (docs/models.md). In CI,
    `--models DIR` and `podfit plan --model-config config.json` take the model's own files. Without a shape nothing
    about memory is judged: ignorance is a finding, not a guess.
    """

    plane = "config"
    threatens = "practice"
    mode = "warn"
    mute_for = ("model",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """A fact about what podfit knows."""
        annotation = annotated(engine.workload)
        if annotation is not None and (engine.model is None or not engine.model.source.startswith("annotation")):
            yield Finding(
                _place(engine),
                f"annotation {ANNOTATION}: no model {annotation!r} is known" + _near(annotation),
                suggestions=(TEACH,),
            )
        if (engine.model is not None and engine.model.value.num_hidden_layers) or engine.command.entry == "worker":
            return
        why = engine.args.unresolved.get("model")
        if why is not None:
            yield Finding(engine.argument("model"), f"which model is served can't be known: {why}", suggestions=(LIKE,))
        elif engine.args.model is None and engine.args.open:
            yield Finding(
                engine.command.path, f"which model is served can't be seen: {engine.args.open}", suggestions=(LIKE,)
            )
        elif engine.args.model is None and "args" not in engine.workload.completes:
            default = engine.args.defaults.get("model")
            yield Finding(
                engine.command.path,
                "no model is named"
                + (f": vLLM would serve its default, {default}" if default else "")
                + (UNSERVED.format(engine.args.given.get("model")) if engine.args.unserved else ""),
                suggestions=(f"--model {engine.args.given.get('model')}",)
                if engine.args.unserved
                else ("the model as first argument of `vllm serve`, or --model", LIKE),
            )
        elif engine.args.model is not None:
            told = engine.model.source.removeprefix("name: it ") if engine.model else ""
            yield Finding(
                engine.argument("model"),
                f"model {engine.args.model!r} is not known here"
                + (f"; its name {told}: only its weights are estimated" if told else ": its memory is not judged"),
                suggestions=(LIKE, TEACH),
            )


UNSERVED = ", and not {!r}: `python -m vllm.entrypoints.openai.api_server` takes the model from --model alone"
LIKE = f"annotation {ANNOTATION} with the id of a published model of the same shape"
TEACH = f"a ConfigMap with its config.json, labelled {LABEL} (`podfit models add DIR` writes one)"


def _place(engine: Engine) -> FieldPath:
    """Where the annotation stands: on the Pod's template or, where it has none there, on the object itself."""
    own = FieldPath(("metadata", "annotations", ANNOTATION))
    template = FieldPath(engine.workload.path.parts[:-1]).join("metadata", "annotations", ANNOTATION)
    return template if template.get(engine.workload.object) is not None else own


def _near(name: str) -> str:
    found = nearest(name)
    return f"; did you mean {' or '.join(found)}?" if found else ""
