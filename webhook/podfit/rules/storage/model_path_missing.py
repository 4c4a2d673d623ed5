from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, lines, parameter
from podfit.rules.storage import brought_files


@dataclass(frozen=True)
class ModelPathMissing(Rule):
    """The model is a local path, and no volume is mounted there.

    vLLM's image contains no models. vLLM treats a path that does not exist as a repository of the hub, and ends before
    it loads anything:

        huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name':
        '/models/Qwen3-8B'. Use `repo_type` argument if needed.
        OSError: Can't load the configuration of '/models/Qwen3-8B'.

    It is a warning, since a webhook may add the volume and a mirror of the image may contain the model. A policy can
    exclude both with `closed: true`.
    """

    plane = "storage"
    event = "vLLM exits: the path does not exist"
    mode = "deny"
    mute_for = ("model",)

    closed: bool = parameter(False, brought_files.CLOSED)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely; certain if the policy says that nothing else brings files (`closed`). None for a model that is not a
        path, and if a file may be there."""
        model = engine.args.model
        if model is None or not model.startswith("/") or not engine.args.is_sure("model"):
            return
        if engine.args.given.get("load_format") == "dummy" and engine.args.given.get("hf_config_path"):
            return  # vLLM reads no files of the model
        if brought_files.may_be_there(engine, model):
            return
        hub_id = engine.model.value.id if engine.model and "/" in engine.model.value.id else None
        yield Finding(
            path=engine.argument("model"),
            message=f"no volume is mounted at or above {model}, and vLLM's image holds no models",
            details=("vLLM takes a path that does not exist for a repository id: HFValidationError, or OSError",),
            certainty="certain" if self.closed else "likely",
            uncertain=brought_files.UNCERTAIN,
            suggestions=lines("a volume with the model, mounted there", hub_id),
        )
