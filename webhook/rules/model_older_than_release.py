"""Rule model-older-than-release."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.model import architectures
from webhook.rule import Finding, Rule
from webhook.rules import _architecture


class ModelOlderThanRelease(Rule):
    """This vLLM release no longer serves the model's architecture.

    Every few releases vLLM drops architectures that hardly anybody serves any more (QWen of 2023, Baichuan, InternLM,
    MPT, MiniMax-M1 …), and ends before anything loads (models/registry.py, _raise_for_unsupported):

        ValueError: Model architecture QWenLMHeadModel was supported in vLLM until v0.23.0, and is not supported
        anymore. Please use an older version of vLLM if you want to use this model architecture.

    Where the Transformers library of the image knows the model, or the checkpoint brings code that is trusted, this is
    a warning: it may run, slower. An older image serves it.
    """

    plane = "config"
    mode = "deny"
    needs = ("model", "release")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image, where Transformers has no such model either."""
        if (asked := _architecture.looked_up(engine)) is None:
            return
        model, release = asked
        found = architectures.removed(model, release)
        if found is None:
            return
        yield _architecture.finding(
            engine,
            f"vLLM {release} no longer serves {found.name}, the architecture of {model.id}: "
            f"{found.last} does, {found.gone} does not",
            unserved=architectures.is_removed(model, release, remote_code=_architecture.trusts_code(engine)),
            instead=f"vLLM {found.last}",
        )
