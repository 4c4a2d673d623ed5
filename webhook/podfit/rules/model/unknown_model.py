from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.kube.path import FieldPath
from podfit.kube.workload.kserve_runtime import RUNTIMES
from podfit.rules._flags import unsplit
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change, release
from podfit.vllm.command import Word
from podfit.vllm.model import ANNOTATION, annotated, is_default, nearest
from podfit.vllm.model.given import LABEL
from podfit.vllm.model.name import last_part


class UnknownModel(Rule):
    """The model is not known, so its memory can't be computed.

    podfit contains the shapes of some 1,800 published models and never accesses the internet. For a path inside a
    volume, or a copy of a published model, name the published model with the same shape:

        metadata.annotations["podfit.dev/model"]: meta-llama/Llama-3.1-8B-Instruct

    Add your own model once, for all users: `podfit models add DIR` writes its config.json, and the counts from its
    safetensors files, as a ConfigMap labeled `podfit.dev/model-config` (docs/models.md). In CI, `--models DIR` and
    `podfit plan --model-config config.json` read the model's own files. Without a shape podfit evaluates nothing about
    memory, and reports this finding instead of a guess.

    podfit plans a published model's name without its organization as that model, but vLLM would not find it at the hub:

        OSError: Qwen3-14B is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'
    """

    plane = "config"
    event = "podfit does not check the model's memory"
    threatens = "practice"
    needs = ("vllm_args",)
    mute_for = ("model",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """A fact about what podfit knows."""
        annotation = annotated(engine.workload)
        if annotation is not None and (engine.model is None or not engine.model.source.startswith("annotation")):
            yield Finding(
                _place(engine),
                f"annotation {ANNOTATION}: no model {annotation!r} is known" + _suggestion(annotation),
                suggestions=(TEACH,),
            )
        if (
            engine.command.entry == "worker"
            or engine.command.unread
            or any(map(_names_one, engine.once(unsplit).values()))
        ):
            return
        if engine.model is not None and engine.model.value.num_hidden_layers and not is_default(engine.model):
            if not engine.model.may_deny:  # of another name
                yield from _without_organisation(engine, engine.model.value.id)
            return
        why = engine.args.unresolved.get("model")
        if why is not None:
            yield Finding(
                engine.argument("model"),
                f"which model is served can't be known: {why}",
                advice=engine.workload.kind in PRESETS,
                yields_to=("placeholder-value",),
                suggestions=(LIKE,),
            )
        elif engine.args.model is None and engine.args.open:
            yield Finding(
                engine.command.path,
                f"which model is served can't be seen: {engine.args.open}",
                advice=engine.workload.kind in PRESETS,
                suggestions=(LIKE,),
            )
        elif engine.args.model is None and "args" not in engine.workload.completes:
            default = engine.args.defaults.get("model")
            if engine.command.guessed:
                what = f"no model is named: {engine.command.program} may load one of its image"
                yield Finding(engine.command.path, what, suggestions=(LIKE,))
                return
            yield Finding(
                engine.command.path,
                "no model is named"
                + (f": vLLM would serve its default, {default}" if default else "")
                + (UNSERVED.format(engine.args.given.get("model")) if engine.args.unserved else ""),
                suggestions=(change.quoted_flag("--model", str(engine.args.given.get("model"))),)
                if engine.args.unserved
                else ("the model as first argument of `vllm serve`, or --model", LIKE),
            )
        elif engine.args.model is not None:
            known = f"; {_known_part(engine.model.source)}: only its weights are estimated" if engine.model else ""
            yield Finding(
                engine.argument("model"),
                f"unknown model {engine.args.model!r}" + (known or ": its memory is not checked"),
                yields_to=("placeholder-value",),
                suggestions=(LIKE, TEACH),
            )


def _without_organisation(engine: Engine, id_: str) -> Iterator[Finding]:
    """The finding that a published model's name lacks the organization, which a model ID of the hub needs.

    The name may also be a folder of a custom image or of a volume."""
    name = engine.args.model
    if name is None or "/" in name or "/" not in id_ or last_part(name) != last_part(id_):
        return
    if not engine.container.spec.get("workingDir") and release.is_official(str(engine.field("image"))):
        yield Finding(
            engine.argument("model"),
            f"model {name!r} has no organization: vLLM looks for a folder of that name, then at the hub",
            details=(f"{name} is not a local folder and is not a valid model identifier",),
            suggestions=(id_,),
        )


def _names_one(word: Word) -> bool:
    """True for `--model NAME` in one word, which `argument-string-not-split` reports."""
    return re.match(r"--model\b", word.text) is not None


def _known_part(source: str) -> str:
    """The part of the model's shape that is known: the size in its name, or that of an incomplete entry."""
    kind, _, text = source.partition(": it ")
    return f"its name {text}" if kind == "name" and text else "its shape is known in part"


PRESETS = frozenset({*RUNTIMES, "LLMInferenceServiceConfig"})
"""Kinds that services of many models use: a finding about the model is theirs."""
UNSERVED = ", and not {!r}: `python -m vllm.entrypoints.openai.api_server` takes the model from --model alone"
LIKE = f"annotation {ANNOTATION} with the id of a published model of the same shape"
TEACH = f"a ConfigMap with its config.json, labelled {LABEL} (`podfit models add DIR` writes one)"


def _place(engine: Engine) -> FieldPath:
    """Where the annotation is: on the Pod's template or, where it has none there, on the object itself."""
    own = FieldPath(("metadata", "annotations", ANNOTATION))
    template = FieldPath(engine.workload.path.parts[:-1]).join("metadata", "annotations", ANNOTATION)
    return template if template.get(engine.workload.object) is not None else own


def _suggestion(name: str) -> str:
    """The nearest names of known models, as the end of a message; empty if none is near."""
    names = nearest(name)
    return f"; did you mean {' or '.join(names)}?" if names else ""
