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
        """Certain if the text has a known token's form."""
        env = engine.variables
        texts = [value for _, _, value in env if isinstance(value, str)]
        formed = secret.has_form("\0".join([*texts, engine.once(command_text)]))
        for index, name, value in env if formed or not engine.declared.isdisjoint(TOKEN_NAMES) else ():
            if not isinstance(value, str):
                continue
            if (formed or name in TOKEN_NAMES) and _is_token(value, named=name in TOKEN_NAMES):
                yield Finding(
                    engine.at("env", index, "value"),
                    f"env {name} holds a token in plain text",
                    suggestions=(f"valueFrom.secretKeyRef for {name}, and a new token: this one has been seen",),
                )
        yield from _of_api_keys(engine)
        yield from _of_words(engine) if formed else ()


def _of_api_keys(engine: Engine) -> Iterator[Finding]:
    """One finding for each --api-key whose value is in the command."""
    for item in _api_keys(engine):
        if _is_token(item, named=True) and _literal(engine, item):
            yield Finding(
                engine.argument("api_key"),
                "--api-key holds a token in plain text",
                suggestions=("env VLLM_API_KEY from a Secret (valueFrom.secretKeyRef), without --api-key",),
            )


def _api_keys(engine: Engine) -> tuple[str, ...]:
    """The values of `--api-key` that are texts."""
    key = engine.args.given.get("api_key")
    return tuple([item for item in (key if isinstance(key, list) else (key,)) if isinstance(item, str) and item])


def _of_words(engine: Engine) -> Iterator[Finding]:
    """The first other word of the command that has a token."""
    for word in engine.command.words:
        match = None if word.unknown or word.path == engine.at("env") else FORM.search(word.text)
        if match is not None and not {word.text, word.text.partition("=")[2]}.intersection(_api_keys(engine)):
            variable = next((f"env {name}" for start, name in VARIABLES if match[0].startswith(start)), "a variable")
            yield Finding(
                word.path,
                "an argument holds a token in plain text",
                suggestions=(f"{variable} from a Secret (valueFrom.secretKeyRef), and a new token",),
            )
            return


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
PLACEHOLDER = regex(
    r"[<>{}$\[\]]|your|replace|change|example|placeholder|insert|dummy|fake|todo|secret|xxx|\*\*\*|token|key|none|test",
    re.IGNORECASE,
)


def _is_token(value: str, *, named: bool) -> bool:
    """True if it has the form of a token, or if it is the value of a token variable (`named`) and no placeholder."""
    if FORM.search(value):
        return True
    if not named or len(value) < 16:
        return False
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return mixed and not PLACEHOLDER.search(value)


def _literal(engine: Engine, value: str) -> bool:
    """True if the words of the command hold it: it did not come from a variable."""
    return any(
        value in word.text and not word.unknown and "env" not in word.path.parts for word in engine.command.words
    )
