"""Names of secrets: of flags, variables, JSON keys, headers and query parameters."""

from __future__ import annotations

import re
from functools import lru_cache

from podfit.base.lazy import regex


def words_of(text: str) -> frozenset[str]:
    """Return the words of a list in one text."""
    return frozenset(text.split())


VALUE_KEYS = ("value", "default", "val")
"""Keys next to a name whose value is a secret if the name is one of a secret."""
MAX_NAME_LENGTH = 80
"""Maximum length, in characters, of the name of a secret."""
_PARTS = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""The words of `apiKey`, `API_KEY`, `--api-key`."""
_ALWAYS = words_of(
    "password passwd passphrase passcode pw pass secret authorization cookie auth bearer salt credential credentials "
    "creds apikey accesskey secretkey authkey authtoken accesstoken hftoken jwt"
)
_IN_ONE_WORD = words_of("mykey awskey hfkey openaikey sshkey masterkey userpass dbpass")
_PLURALS = {"keys": "key", "tokens": "token", "secrets": "secret", "passwords": "password"}
_OF_PEOPLE = words_of("api access auth secret private hf bearer")
"""Words before the plural of a secret: `--api-keys`, but not `max_tokens`."""
_ENDINGS = words_of("value plain plaintext text base base64 b64 old new primary secondary prod dev staging")
_OTHER_KEYS = words_of(
    "annotation cache column config dict field foreign group hash host idempotency index key kv label lookup map match "
    "metric node num object partition prefix primary public query routing shard sort sub taint toleration "
    "topology"  # style: quoted
)
"""Words before a key that is not a secret: `topologyKey`, `num_key`."""
_OTHER_TOKENS = words_of(
    "adapter audio begin boi bos call cls control draft end eoi eos first image input last mask max min next num "
    "output pad per placeholder prompt sep separator special speculative start stop think tool unk video "
    "vision"  # style: quoted
)
"""Words before a token of a tokenizer: `eos_token`, `image_token`."""
_COUNTS = frozenset({"max", "min", "num", "per"})
"""Words in the name of a number, such as the misspelled `--max-num-batched-token`."""
_REFERENCES = regex(r"[a-z][a-zA-Z0-9]*Secret")
_NO_REFERENCES = frozenset({"clientSecret", "apiSecret", "sharedSecret", "appSecret", "consumerSecret"})
"""Kubernetes fields such as `pullSecret` contain the name of a Secret. These contain the secret itself."""


def is_secret_name(name: str) -> bool:
    """Return whether a value with this name is a secret: `--api-key`, `HF_TOKEN`, `clientSecret`, `X-Api-Key`."""
    return len(name) <= MAX_NAME_LENGTH and names_secret(name)


_HINT = regex("key|token|secret|pass|auth|bearer|cookie|cred|salt|pw|pat|jwt", re.IGNORECASE)
"""A fast check before the full one: the name of every secret contains one of these."""


@lru_cache(4096)  # the same few fields are in every object
def names_secret(name: str) -> bool:
    """Return whether a name, at most MAX_NAME_LENGTH long, is one of a secret, by its last word (without numbers and
    endings such as `file`) and the words before it."""
    if _HINT.search(name) is None:
        return False
    words = [word.lower() for word in _PARTS.findall(name)]
    while words and (words[-1].isdigit() or (words[-1] in _ENDINGS and len(words) > 1)):
        words.pop()
    if not words:
        return False
    before, last = words[-2] if len(words) > 1 else "", words[-1]
    if last in _PLURALS:
        if before not in _OF_PEOPLE:
            return False
        last = _PLURALS[last]
    if last == "key":
        return bool(before) and before not in _OTHER_KEYS
    if last == "token":
        return before not in _OTHER_TOKENS and _COUNTS.isdisjoint(words)
    if last == "pat":
        return bool(before)
    if last.endswith("pwd"):
        return name not in ("PWD", "OLDPWD")  # the shell's directories
    if last == "id":  # of AWS and MinIO, of Vault's AppRole, of Modal
        return before == "secret" or words[-3:-1] == ["access", "key"] or words[:-1] in (["token"], ["modal", "token"])
    if last == "secret" and _REFERENCES.fullmatch(name) and name not in _NO_REFERENCES:
        return False
    if last.endswith("token"):  # in one word: `--mytoken`
        return last.removesuffix("token") not in _OTHER_TOKENS
    return (
        last in _ALWAYS
        or last in _IN_ONE_WORD
        or last.endswith(("apikey", "password", "passwd", "passphrase", "secret", "accesskey"))
    )


def gives(name: str) -> bool:
    """Return the same for a flag or a variable, which includes `--key` and `KEY`."""
    return is_secret_name(name) or (name[-1:] in "yY-" and name.strip("-").lower() == "key")
