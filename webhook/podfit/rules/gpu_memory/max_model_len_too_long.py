from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.rules import _flags
from podfit.rules.engine import Engine
from podfit.rules.gpu_memory import _length
from podfit.rules.gpu_memory._length import ALLOWS
from podfit.rules.rule import Finding, Rule, parameter
from podfit.vllm import change
from podfit.vllm.change import Suggestion
from podfit.vllm.memory.arguments import embeds
from podfit.vllm.model import Model
from podfit.vllm.model.given import key
from podfit.vllm.release import Release

READ_SINCE = Release(0, 6, 6)
"""From here to 0.33 the rules of `podfit.vllm.model.length` are vLLM's (config.py, config/model.py)."""

MAY_BE_OLD = "the hub's config.json may allow more by now"


@dataclass(frozen=True)
class MaxModelLenTooLong(Rule):
    """The context length is longer than the model's config.json allows.

    vLLM derives the longest context from config.json and rejects a longer one before it loads anything:

        ValueError: User-specified max_model_len (131072) is greater than the derived max_model_len
        (max_position_embeddings=32768 …). … VLLM_ALLOW_LONG_MAX_MODEL_LEN=1

    A model with an extended context needs its rope scaling set (`--hf-overrides`), or its answers get worse.

    The rule denies only if you gave a config.json for exactly this model (`--model-config`, `--models`, a ConfigMap)
    and vLLM's own image, v0.6.6 or newer, reads that file. Otherwise it warns and names the reason:

    - The hub's config.json may have a longer context than when the catalog read it (unless the policy sets
      `believeCatalog`).
    - The length is from a table, or from the original of a copied model.
    - `--revision` selects another file.
    - `--trust-remote-code` runs the model's own config class.
    - An `envFrom` may set VLLM_ALLOW_LONG_MAX_MODEL_LEN.
    - Mistral's repositories also have a params.json, which vLLM may prefer.
    - An embedding model's sentence_bert_config.json may override the length.
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    by_release = True
    mode = "deny"
    partly_denies = "without a config.json of your own or believeCatalog, the hub's config.json may allow more by now"
    needs = ("model", "release", "vllm_args")

    believe_catalog: bool = parameter(False, "deny what the catalog's config.json does not allow, however old it is")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the config.json itself was read, and nothing else may set a length."""
        longest = _length.too_long(engine)
        if longest is None or engine.model is None:
            return
        given, model = engine.args.given["max_model_len"], engine.model.value
        unread = _unread(engine, model)
        allowed = f"that the config.json of {model.id} allows" if unread is None else f"that are known of {model.id}"
        why = unread or _uncertain(engine, model)
        if why is None and not self.believe_catalog and not _is_given(engine, model):
            why = MAY_BE_OLD
        yield Finding(
            path=engine.argument("max_model_len"),
            message=f"--max-model-len {given:,} is longer than the {longest:,} tokens {allowed}: vLLM does not start"
            + ("" if unread is None else ", if that is its length"),
            certainty="likely" if why else "certain",
            uncertain=why,
            suggestions=_shorter(engine, longest),
        )


def _shorter(engine: Engine, longest: int) -> tuple[Suggestion, ...]:
    """The change to `longest` tokens, the most that the model allows, or to let vLLM take more.

    Where the KV cache is too small for that, the change to what it holds, if a shorter length alone is enough."""
    allowed = change.flags(f"--max-model-len {longest}")
    if not _length.is_short(engine):
        return allowed, f"env {ALLOWS}=1, at the risk of nonsense"
    for alternative in engine.once(_length.within):
        if alternative.changes.keys() == {"max_model_len"}:
            return (change.flags(*alternative.flags),)
    return (allowed,)


def _is_given(engine: Engine, model: Model) -> bool:
    """True if the config.json is the user's own, also in one snapshot that --revision names; False: the catalog's."""
    models = engine.facts.models
    if model.revision is not None:
        return f"{model.id}@{model.revision}" in models
    return key(model.id) in models or "*" in models


def _unread(engine: Engine, model: Model) -> str | None:
    """Why the length is not from a config.json of exactly the served model; None if it is."""
    served, found_model = engine.args.model or "", engine.model
    is_of_served = served.lower() == model.id.lower() or "*" in engine.facts.models
    if model.length_read and is_of_served and found_model is not None and found_model.may_deny:
        return None
    return f"no config.json of {served or 'it'} was read: {found_model.source if found_model else 'unknown'}"


def _uncertain(engine: Engine, model: Model) -> str | None:
    """Another possible source of the length that vLLM derives, or of its rules; None if there is none."""
    given, unresolved = engine.args.given, engine.args.unresolved
    is_other_revision = "revision" in given and given["revision"] != model.revision
    may_be_other_revision = "revision" in unresolved or "code_revision" in unresolved
    if is_other_revision or "code_revision" in given or may_be_other_revision:
        return "--revision names another file than the one that was read"
    if given.get("trust_remote_code") or "trust_remote_code" in unresolved:
        return "--trust-remote-code may run a config class of the model's own"
    if ALLOWS in engine.declared or engine.field("envFrom") or engine.command.decided & {ALLOWS, "*"}:
        return f"{ALLOWS} may have a value that is not in the manifest"
    if model.id.lower().startswith("mistralai/"):
        return "Mistral's repositories also have a params.json, which vLLM may prefer"
    if embeds(model):
        return "an embedding model's sentence_bert_config.json may set another length"
    if engine.release is not None and engine.release < READ_SINCE:
        return f"how vLLM {engine.release} derives the length is unknown"
    if _flags.certainty(engine) == "certain":
        return None
    if _flags.is_changed(engine):
        return "Python code other than vLLM's own may run"
    return _flags.uncertain(engine)
