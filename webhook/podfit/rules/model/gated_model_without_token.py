from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from podfit.base.lazy import regex
from podfit.kube.path import is_object, mappings
from podfit.kube.workload import CachedObject, Workload, as_list
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.model import catalogue
from podfit.vllm.volumes import MODELSCOPE, OFFLINE, is_offline, modelscope


class GatedModelWithoutToken(Rule):
    """The model is gated on Hugging Face, and the object has no token.

    The hub rejects the download without a token of an account that has accepted the license. The errors are "You are
    trying to access a gated repo" and "401 Client Error: Unauthorized". The rule reports nothing if the object has a
    token anywhere, if a volume may hold the checkpoint, with another hub, or in offline mode.
    """

    plane = "config"
    event = "vLLM exits: access to the model is restricted"
    never_denies = "an admission webhook after this one may add the token"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely at most: an admission webhook after this one may add the token."""
        name = engine.args.model or ""
        if not _is_gated(name, engine) or engine.container.synthetic:
            return
        if _may_be_there(engine) or _may_have_token(engine):
            return
        empty = next((text for text in TOKEN_VARIABLES if engine.command.env.get(text) == ""), None)
        yield Finding(
            engine.argument("model"),
            f"model {name!r} is gated on Hugging Face, and "
            + (f"{empty} is empty" if empty else "the container gets no HF_TOKEN"),
            certainty="likely",
            suggestions=(
                "env HF_TOKEN from a Secret (valueFrom.secretKeyRef), of an account that has accepted the license",
            ),
        )


def _is_gated(name: str, engine: Engine) -> bool:
    """True if the hub demands a token for this repository. A mirror of a gated model is not gated."""
    if engine.model is None:
        return name.lower() in catalogue.gated()
    model = engine.model.value
    return model.gated and name.partition("/")[0].lower() == model.id.partition("/")[0].lower()


TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""huggingface_hub utils/_auth.py; HF_TOKEN_PATH and a login's file count too."""
OTHER_TOKEN_SOURCES = ("HF_ENDPOINT", "HF_TOKEN_PATH")
"""Variables with which another hub is asked, or a token is found."""
ANNOUNCED, BEFORE, MENTIONS = regex("token|login"), 96, 256
"""The end of a mention of a token or a login, the number of characters before it that are read, and how many mentions
are read. An object with more of these words is taken for one that mentions a token."""
MENTION = regex(r"(?:(?:hf[_-]?|hugging_?face[\w-]{0,64})token|(?:huggingface-cli|hf)\s+(?:auth\s+)?login)\Z")
TRANSIENT = frozenset({"emptyDir", "configMap", "downwardAPI"})
"""Volumes that hold no checkpoint and no token's file when the container starts."""


def _may_have_token(engine: Engine) -> bool:
    """True if a token, or another place than the hub, is given somewhere, or may be where it can't be seen.

    False if a token's variable is empty: that alone is a mention of it."""
    known, variables = engine.command.env, mappings(engine.field("env"))
    if engine.field("envFrom") or engine.args.open:
        return True  # either may bring a token: a variable, or `--hf-token`
    if any(known.get(name) for name in OTHER_TOKEN_SOURCES) or is_offline(known) or modelscope(known):
        return True
    replacing = (*OTHER_TOKEN_SOURCES, *OFFLINE, MODELSCOPE)
    if any(item.get("name") in replacing and item.get("name") not in known for item in variables):
        return True  # its value is not seen
    tokens = [item for item in variables if item.get("name") in TOKEN_VARIABLES]
    if any(item.get("value") == "" and not item.get("valueFrom") for item in tokens):
        return False
    return engine.cached_object.once(_mentions)  # finds the name of a token's variable, too


def _mentions(cached_object: CachedObject) -> bool:
    """True if the object mentions a token or a login, in any place."""
    text = json.dumps(cached_object.object, default=str).lower()
    ends = [match.end() for match in islice(ANNOUNCED.finditer(text), MENTIONS + 1)]
    return len(ends) > MENTIONS or any(MENTION.search(text, max(0, end - BEFORE), end) for end in ends)


def _may_be_there(engine: Engine) -> bool:
    """True if a volume may hold the checkpoint, or the login's file."""
    kept = engine.workload.once(_kept_volumes)
    return any(str(item.get("name")) in kept for item in as_list(engine.field("volumeMounts")) if is_object(item))


def _kept_volumes(workload: Workload) -> frozenset[str]:
    """The names of the volumes that can hold files before the container starts."""
    volumes = (item for item in as_list(workload.spec.get("volumes")) if is_object(item))
    return frozenset(str(volume.get("name")) for volume in volumes if TRANSIENT.isdisjoint(volume))
