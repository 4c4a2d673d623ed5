from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base import secret
from podfit.base.lazy import regex
from podfit.rules._flags import command_text
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class TokenInPlainEnv(Rule):
    """A token is in the manifest in plain text.

    Users who can read the workload, its history in Git or an audit log can read the token. Kubernetes keeps tokens in
    Secrets: `env[].valueFrom.secretKeyRef` for HF_TOKEN, VLLM_API_KEY (instead of --api-key) and the like. The token
    itself is never printed here.
    """

    plane = "config"
    event = "a user who may read the manifest may read the token"
    of_vllm = False
    threatens = "practice"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: a text has the form of a token, or is the value of a variable or of --api-key that holds one."""
        texts = [variable.value for variable in engine.variables if isinstance(variable.value, str)]
        # One search of all texts: a manifest mostly has no token, and each value need not be searched.
        any_has_form = secret.has_form("\0".join([*texts, engine.once(command_text)]))
        if any_has_form or not engine.declared.isdisjoint(TOKEN_NAMES):
            yield from _of_variables(engine, any_has_form=any_has_form)
        yield from _of_api_keys(engine)
        if any_has_form:
            yield from _of_words(engine)


def _of_variables(engine: Engine, *, any_has_form: bool) -> Iterator[Finding]:
    """One finding for each variable of the container's env whose value is a token. Without `any_has_form`, only those
    of `TOKEN_NAMES` can be one."""
    for index, name, value in engine.variables:
        if not isinstance(value, str) or not (any_has_form or name in TOKEN_NAMES):
            continue
        if _is_token(value, named=name in TOKEN_NAMES):
            yield Finding(
                engine.at("env", index, "value"),
                f"env {name} holds a token in plain text",
                suggestions=(f"valueFrom.secretKeyRef for {name}, and a new token: this one has been seen",),
            )


def _of_api_keys(engine: Engine) -> Iterator[Finding]:
    """One finding for each --api-key whose value is in the command."""
    for item in _api_keys(engine):
        if _is_token(item, named=True) and _is_literal(engine, item):
            yield Finding(
                engine.argument("api_key"),
                "--api-key holds a token in plain text",
                suggestions=("env VLLM_API_KEY from a Secret (valueFrom.secretKeyRef), without --api-key",),
            )


def _api_keys(engine: Engine) -> tuple[str, ...]:
    """The values of `--api-key` that are texts and not empty; none if it is not set."""
    given = engine.args.given.get("api_key")
    keys = given if isinstance(given, list) else [given]
    return tuple([key for key in keys if isinstance(key, str) and key])


def _of_words(engine: Engine) -> Iterator[Finding]:
    """The finding on the first word of the command that has a token, other than the value of --api-key."""
    api_keys = _api_keys(engine)
    for word in engine.command.words:
        if word.unknown or word.path == engine.at("env"):
            continue  # its text is not the manifest's, or `_of_variables` has it
        match = FORM.search(word.text)
        is_api_key = word.text in api_keys or word.text.partition("=")[2] in api_keys
        if match is not None and not is_api_key:
            yield Finding(
                word.path,
                "an argument holds a token in plain text",
                suggestions=(f"{_variable_for(match[0])} from a Secret (valueFrom.secretKeyRef), and a new token",),
            )
            return


def _variable_for(token: str) -> str:
    """The variable from which programs read a token of this form, for people: "env HF_TOKEN"."""
    for start, name in VARIABLES:
        if token.startswith(start):
            return f"env {name}"
    return "a variable"


TOKEN_NAMES = frozenset({
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_TOKEN", "HUGGINGFACEHUB_API_TOKEN", "VLLM_API_KEY",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "NGC_API_KEY", "OPENAI_API_KEY", "WANDB_API_KEY",
    "MODELSCOPE_API_TOKEN", "AZURE_STORAGE_KEY", "DD_API_KEY",
})  # fmt: skip
"""Variables whose value is a token whatever its form."""
FORM = regex(r"\b(hf_[A-Za-z0-9]{30,}|nvapi-[\w-]{40,}|sk-[\w-]{32,}|AKIA[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{36,})")
"""Forms of Hugging Face's, NVIDIA's, OpenAI's, AWS's and GitHub's tokens."""
VARIABLES = (("hf_", "HF_TOKEN"), ("nvapi-", "NGC_API_KEY"))
"""The start of a token, and the variable from which programs read it."""
SHORTEST_TOKEN = 16
"""Characters. podfit's choice: a shorter value of a token variable is mostly a placeholder."""
PLACEHOLDER = regex(
    r"[<>{}$\[\]]|your|replace|change|example|placeholder|insert|dummy|fake|todo|secret|xxx|\*\*\*|token|key|none|test",
    re.IGNORECASE,
)


def _is_token(value: str, *, named: bool) -> bool:
    """True if a text has the form of a token. True, too, for the value of a token variable (`named`) that has digits
    and letters and is not a placeholder."""
    if FORM.search(value):
        return True
    if not named or len(value) < SHORTEST_TOKEN:
        return False
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return mixed and not PLACEHOLDER.search(value)


def _is_literal(engine: Engine, value: str) -> bool:
    """True if the value is written in the command, and did not come from a variable."""
    return any(
        value in word.text and not word.unknown and "env" not in word.path.parts for word in engine.command.words
    )
