"""Find the secrets in a manifest, and mask them in text for people. Every such text passes through `Secrets`.

A secret is the value of a flag, variable, JSON key, header or query parameter with such a name, or the password in a
URL. So is a text in the form of a known kind of token. Each quote of a known secret is masked, also in other
spellings (JSON, percent-encoding, upper and lower case). Placeholders, paths and words such as "auto" stay readable; a
number of a few digits is masked only after such a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from podfit.base.lazy import cached_property
from podfit.base.logins import handed_on, passwords
from podfit.base.printable import one_line, shortened
from podfit.base.quotable import Quotable, canonical

Span = tuple[int, int]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_SECRETS = 256
"""Maximum number of secrets in one object. A text about an object with more is withheld, which bounds the search."""
MOST_SIGNS, MOST_TEXT, MOST_VALUES = 10_000, 1 << 19, 1 << 16
"""Maximum number of words and signs in one object that can announce a secret, of characters in its texts, and of its
values. A text about an object with more is withheld as well."""
LONG = 1 << 16
"""Maximum length, in characters, of a text that is searched. A longer text is withheld."""
WITHHELD = (
    "(not shown: the object is too large to search for secrets, or more than "
    f"{MAX_SECRETS} of its values look like secrets)"
)

# ── Names ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST = 80
"""Maximum length, in characters, of the name of a secret."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""The words of `apiKey`, `API_KEY`, `--api-key`."""
_ALWAYS = _words(
    "password passwd passphrase passcode pw pass secret authorization cookie auth bearer salt credential credentials "
    "creds apikey accesskey secretkey authkey authtoken accesstoken hftoken jwt"
)
_IN_ONE_WORD = _words("mykey awskey hfkey openaikey sshkey masterkey userpass dbpass")
_PLURALS = {"keys": "key", "tokens": "token", "secrets": "secret", "passwords": "password"}
_OF_PEOPLE = _words("api access auth secret private hf bearer")
"""Words before the plural of a secret: `--api-keys`, but not `max_tokens`."""
_ENDINGS = _words("value plain plaintext text base base64 b64 old new primary secondary prod dev staging")
_OTHER_KEYS = _words(
    "annotation cache column config dict field foreign group hash host idempotency index key kv label lookup map match "
    "metric node num object partition prefix primary public query routing shard sort sub taint toleration "
    "topology"  # style: quoted
)
"""Words before a key that is not a secret: `topologyKey`, `num_key`."""
_OTHER_TOKENS = _words(
    "adapter audio begin boi bos call cls control draft end eoi eos first image input last mask max min next num "
    "output pad per placeholder prompt sep separator special speculative start stop think tool unk video "
    "vision"  # style: quoted
)
"""Words before a token of a tokenizer: `eos_token`, `image_token`."""
_COUNTS = frozenset({"max", "min", "num", "per"})
"""Words in the name of a number, such as the misspelled `--max-num-batched-token`."""
_REFERENCES = re.compile(r"[a-z][a-zA-Z0-9]*Secret")
_NO_REFERENCES = frozenset({"clientSecret", "apiSecret", "sharedSecret", "appSecret", "consumerSecret"})
"""Kubernetes fields such as `pullSecret` contain the name of a Secret. These contain the secret itself."""


def names(name: str) -> bool:
    """Return whether a value with this name is a secret: `--api-key`, `HF_TOKEN`, `clientSecret`, `X-Api-Key`."""
    return len(name) <= _LONGEST and _names_secret(name)


_HINT = re.compile("key|token|secret|pass|auth|bearer|cookie|cred|salt|pw|pat|jwt", re.IGNORECASE)
"""A fast check before the full one: the name of every secret contains one of these."""


@lru_cache(4096)  # the same few fields are in every object
def _names_secret(name: str) -> bool:
    """Whether a field or variable of this name contains a secret."""
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
    return names(name) or (name[-1:] in "yY-" and name.strip("-").lower() == "key")


# ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_NONE = _words(
    "0 1 true false yes no on off null none nil empty dummy test token vllm auto default valuefrom undefined"
)
"""Values that are written if no key is needed. A mask would hide the same words elsewhere in a text."""
_PLACEHOLDER = re.compile(
    r"\$\([\w./-]*|\$\(\s*(?:[\w.-]+|(?:cat|<)\s+[~/\w.${}\"-]+)\s*\)|\$\{[^}]*\}|\$[A-Z0-9_]+|<[^<>]*>|\{\{.*\}\}|\[?(?:[a-z]{2,6}[-_])?(?:redacted|masked|x{3,}|\*{3,}|"
    r"\.{3,}|…|changeme|change[-_]me|replace[-_]?me|your[-_]\S*)\]?",
    re.IGNORECASE | re.DOTALL,
)
"""`$(HF_TOKEN)`, `<token>`, hf_xxxxxxxx, sk-REDACTED."""
_PATH = re.compile(r"(?:~|\.{0,2})/(?:[a-z0-9._@-]+/)+[a-z0-9._@-]*|[\w./@-]+\.(?:pem|key|crt|json|txt|token)")
"""The path of a file that contains a secret."""
_WEAK_DIGITS = 6
"""Digits from which a number is masked wherever it appears: a shorter number can be any other number of the text."""
_LIKE_WORDS = re.compile("(?:[A-Za-z][a-z]*)?(?:[-_ ](?:[A-Za-z][a-z]*)?)*")
_LOOSE = 8
"""Characters from which a secret is masked inside other words."""
_HEAD, _FAR, _TRIES = 12, 256, 16
"""For a secret of which a text shows only the beginning: characters that identify it, characters that are compared, and
places that are tried."""


def is_secret(value: str) -> bool:
    """Return whether the value of a secret is one: not a placeholder, a path or a word such as "auto"."""
    text = value.strip()
    return not (
        not text
        or text.lower() in _NONE
        or _PLACEHOLDER.fullmatch(text) is not None
        or _PATH.fullmatch(text) is not None
    )


def _bare(value: str) -> str:
    """Return the token of `Bearer hf_…`."""
    scheme = _SCHEME.match(value)
    return value[scheme.end() :] if scheme else value


def _is_weak(value: str) -> bool:
    """Return whether the value is so short that it is masked only after the name of a secret."""
    return len(value) < 3 or (len(value) < 4 and value.islower() and value.isalpha()) or (
        value.isdecimal() and len(value) < _WEAK_DIGITS
    )  # fmt: skip


def _lower(text: str) -> str:
    """Return `text` of the same length in lower case."""
    return lower if len(lower := text.lower()) == len(text) else canonical(text).replace("-", "_")


def _spellings(secret: str) -> Iterator[str]:
    """Yield the secret as programs and YAML write it."""
    yield secret
    if secret.isascii() and secret.isalnum():
        return
    decoded = _PERCENT.sub(lambda one: chr(int(one[1], 16)), secret)
    for meant in {
        secret,
        secret.strip(),
        secret.replace("$$", "$"),
        secret.translate(_QUOTES),
        decoded,
        *_unescaped(secret),
    }:
        yield meant
        for escaped in (json.dumps(meant), json.dumps(meant, ensure_ascii=False), repr(meant), repr(f"'{meant}")):
            yield escaped[1:-1].removeprefix("'")
        yield repr(f"\"{meant}'")[2:-1].removesuffix("'").removesuffix("\\")
        yield from (_percent(meant, _UNRESERVED), _percent(meant, f"{_UNRESERVED}/"))
        yield meant.replace("'", "''")
        yield "".join([one if one.isascii() else f"\\x{ord(one):02x}" for one in meant])
        yield from filter(_is_loose, _PARTED.split(meant))


def _unescaped(text: str) -> Iterator[str]:
    """Yield the meaning of a quoted text in JSON and in a shell, up to three levels deep."""
    for _ in range(3):
        if "\\" not in text:
            return
        with suppress(ValueError):
            yield str(json.loads(f'"{text}"', strict=False))
        text = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        yield text


_PARTED = re.compile(r"[\s.=:\"']")
"""Places at which YAML folds a text, vLLM splits `--flag.key=value`, and a shell joins what is quoted."""
_QUOTES = str.maketrans("", "", "\"'\\")
_UNRESERVED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
_PERCENT = re.compile("%([0-9A-Fa-f]{2})")


def _percent(text: str, safe: str) -> str:
    """Percent-encode `text` as in a URL (RFC 3986)."""
    return "".join(
        [one if one in safe else "".join([f"%{byte:02X}" for byte in one.encode(errors="replace")]) for one in text]
    )


# ── In a text ────────────────────────────────────────────────────────────────────────────────────────────────────────

_STARTS = (
    "hf_", "api_org_", "sk-", "sk_", "rk_", "nvapi-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-",
    "xox", "AKIA", "ASIA", "AIza", "gsk_", "r8_", "dapi", "eyJ", "-----BEGIN",
    "hooks.slack.com/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/",
)  # fmt: skip
"""Prefixes of known kinds of tokens."""
_FORM = re.compile(
    r"(?<![\w-])(?:(?P<kind>hf_(?=[A-Za-z]*[A-Z0-9])|api_org_|sk-(?=[\w-]*[A-Z0-9])|[sr]k_(?:live|test)_|nvapi-|gh[pousr]_|"
    r"github_pat_|glpat-|xox[a-z]-|A[KS]IA(?=[A-Z0-9]{16})|AIza(?=[\w-]{30})|gsk_|r8_(?=\w{20})|dapi(?=[0-9a-f]{20})"
    r")(?P<token>[\w-]{4,})|eyJ(?P<web>[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]+)?)"
    r"|(?:hooks\.slack\.com/\w{1,20}|discord(?:app)?\.com/api/webhooks)/(?P<hook>[\w/-]{8,})"
    r"|(?P<pem>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----END)[^\0])*+))"
)
"""Tokens of Hugging Face, OpenAI, Stripe, NVIDIA, GitHub, GitLab, Slack, AWS, Google, Groq, Replicate and Databricks,
JSON Web Tokens, the paths of webhooks of Slack and Discord, and private keys."""
_STEMS = ("key", "token", "secret", "pass", "pw", "cred", "auth", "bearer", "cookie", "salt", "_pat", "jwt")
"""Parts of names of secrets: every such name contains one."""
_DASHES = "-‐‑‒–—―−"
_OF_A_NAME = f"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.{_DASHES}"
_REST = re.compile(r"[\w-]{0,80}")
_PAIR = re.compile(r"[\\\"']*+\s*+,?+\s*+[\\\"']*+value[\\\"']*+\s*+[:=]\s*+")
"""The text between name and value in `"name": "HF_TOKEN", "value": "hf_…"`."""
_ASSIGNED = re.compile(
    r"[\\\"'\])]*+[^\S\n]*+(?:=>|\+=|<<<|<<-?\s?[\\\"']?\w{1,40}[\"']?[^\S\n]*+\n|:[-=](?=[^\s}])|[=:](?![-+?]))[^\S\n]*+"
)
"""The text between a name and its value, also in `${NAME:-value}` and `read NAME <<< value`."""
_SPACED = re.compile(r"[\\\"'\]]*+[^\S\n]*+(?:,\s*+|(?:\\+\n\s*+)+|(?<=\s))")
"""The text between a flag and its value."""
_JOINED = re.compile(r"=")
_OPEN = re.compile(r"(?P<list>(?:[\[({]\s*+)*+)(?:\$(?=[\"']))?+(?P<quote>\\*+[\"'`])?+")
_PART = r"[\w.~+/=@%^$-]"
_GLUED = re.compile(rf"(?:\"{_PART}*+\"|'{_PART}*+')(?:{_PART}++|\"{_PART}*+\"|'{_PART}*+')*+")
"""More of a shell's word in other quotation marks: `'one''two'`, `one"two"`."""
_ALIAS = re.compile(r"\b([A-Za-z_]\w{0,79})=[\"']?\$\{?([A-Za-z_]\w{0,79})\}?[\"']?(?=[\s;&|\0]|\Z)")
"""`HF_TOKEN=$A`."""
_KEY_ENDS = re.compile(r"\\*+[\"'`]\s*+:\s*+")
_MORE = re.compile(r"\s*+,\s*+(?=\\*+[\"'`])")
_BARE = re.compile(
    r"(?:\$\([^)\0]{0,256}+\)|\$\{[^}\s]{0,64}+\}|[^\s\"'`\\,;&|)\]}<>\0]|\\.|[,;&|)\]}](?=[^\s\"'\\,;&|)\]}\0])(?![\"']?[\w.-]{1,64}[\"']?\s?[=:]))++"
)
_SCHEME = re.compile(r"(?:bearer|basic|token|digest|apikey|negotiate)(?:\s|%20|\+)++", re.IGNORECASE)
_URL = re.compile(r"://[^\s\0\"'<>\\]+")
_STORAGE = re.compile(r"(?:s3[an]?|gs|gcs|oss|minio|r2)\Z", re.IGNORECASE)
"""Schemes of URLs whose user is an access key."""
_PORT = re.compile(r"\d+(?:/|$)")
_QUERY = re.compile(r"[?&;]([\w.-]{1,64})=([^&\s\0\"'#<>\\;]+)")
_SIGNED = frozenset({"sig", "signature", "x-amz-signature", "x-goog-signature", "x-amz-credential", "key"})


def _places(text: str, words: Iterable[str]) -> list[Span]:
    """Return the places of the words in `text`, sorted. One regular expression for all takes twenty times as long."""
    found: list[Span] = []
    for word in [word for word in words if word in text]:
        at = text.find(word)
        while at >= 0:
            found.append((at, at + len(word)))
            at = text.find(word, at + 1)
    found.sort()
    return found


def _forms(text: str, *, whole: bool = False) -> Iterator[Span]:
    """Yield the secrets that have the form of one. `whole`: include the prefix of the kind (`hf_`)."""
    end = 0
    for at, _ in _places(text, _STARTS):
        one = _FORM.match(text, at) if at >= end else None
        if one is not None and _PLACEHOLDER.fullmatch(one[0]) is None:
            end = one.end()
            group = one.lastgroup or 0
            yield one.span(0 if whole and group != "hook" else group)
    if "://" in text and "@" in text:
        yield from _passwords(text)
    if "=" in text and ("?" in text or "&" in text):
        for one in _QUERY.finditer(text):
            if (names(one[1]) or one[1].lower() in _SIGNED) and is_secret(one[2]):
                yield one.span(2)


def _passwords(text: str) -> Iterator[Span]:
    """Yield the password of `scheme://user:password@host`, or a token in place of the user. Yield the user, too, if it
    is an access key."""
    for token in _URL.finditer(text):
        at = token.start()
        storage = _STORAGE.search(text, max(0, at - 8), at) is not None
        for part in token[0].split("://")[1:]:
            at += len("://")
            authority, sign, _ = part.rpartition("@")
            user, colon, password = authority.partition(":")
            start, one = (at + len(user) + 1, password) if colon else (at, user)
            alone = not colon and (len(user) < _LOOSE or _LIKE_WORDS.fullmatch(user))
            plain = not any(mark in user for mark in "/?#")
            if sign and plain and not alone and not _PORT.match(password) and is_secret(one):
                yield start, start + len(one)
                if colon and len(user) >= _LOOSE and (storage or not _LIKE_WORDS.fullmatch(user)) and is_secret(user):
                    yield at, at + len(user)
            at += len(part)


def _named(text: str, *, joined: bool = False) -> Iterator[Span]:
    """Yield the values after names of secrets. `joined`: only values after `=`, for messages of podfit, in which a word
    after a name is prose."""
    at = 0
    for start, end in _places(_lower(text), _STEMS):
        if start < at:
            continue
        head = text[max(at, start - _LONGEST) : start]
        begin = start - len(head) + len(head.rstrip(_OF_A_NAME))
        rest = _REST.match(text, end)
        at = end = rest.end() if rest else end
        name = text[begin:end]
        bearer = name.lower() == "bearer"
        flag = name[0] in _DASHES
        if not (bearer or (gives(name) if flag else names(name) or name == "KEY")):
            continue
        separators = (_JOINED,) if joined else (_PAIR, _ASSIGNED, *((_SPACED,) if flag or bearer else ()))
        between = next((found for one in separators if (found := one.match(text, end))), None)
        if between is not None:
            spaced = between.re is _SPACED
            for span in _values(text, between.end()):
                value = text[slice(*span)]
                if value.startswith("${") and len(value) <= _LONGEST:
                    continue  # its default can be a secret
                at = max(at, span[1])
                if is_secret(value) and not (spaced and value.startswith("--")):
                    yield span
    if not joined:
        found = (*passwords(text), *handed_on(text, names))
        yield from (span for span in found if is_secret(text[slice(*span)]))


def _values(text: str, at: int) -> Iterator[Span]:
    """Yield the value at this place, or the values of the list at this place."""
    opened = _OPEN.match(text, at)
    assert opened is not None  # noqa: S101  it matches nothing, too
    at, mark, listed = opened.end(), opened["quote"], bool(opened["list"])
    while mark:
        end = _closing(text, at, mark)
        if "{" in opened["list"] and (key := _KEY_ENDS.match(text, end)):
            if text[at:end] in _VALUES:
                yield from _values(text, key.end())
            return  # another key of the object says itself what its value is
        start = _SCHEME.match(text, at, end)
        at = start.end() if start else at
        yield at, end
        if glued := _GLUED.match(text, end + 1) if mark in "\"'" else None:
            yield at, glued.end()
        more = _MORE.match(text, end + len(mark)) if listed else None
        again = _OPEN.match(text, more.end()) if more else None
        if again is None:
            return
        at, mark = again.end(), again["quote"]
    start = _SCHEME.match(text, at)
    bare = _BARE.match(text, start.end() if start else at)
    if bare is not None:
        yield bare.start(), bare.start() + len(bare[0].rstrip(".:,;"))
        if glued := _GLUED.match(text, bare.end()):
            yield bare.start(), glued.end()


def _closing(text: str, at: int, mark: str) -> int:
    """Return the end of a quoted text: its quotation mark, or else the end of the line."""
    whole = text.find("\0", at)
    whole = len(text) if whole < 0 else whole
    end = text.find(mark, at, whole)
    while end >= 0 and len(mark) == 1 and _odd(text, end):
        end = text.find(mark, end + 1, whole)
    if end < 0:
        end = text.find("\n", at, whole)
    return whole if end < 0 else end


def _odd(text: str, at: int) -> bool:
    """Return whether an odd number of backslashes precedes this place."""
    count = 0
    while count < at and text[at - count - 1] == "\\":
        count += 1
    return count % 2 == 1


def secrets_in(text: str) -> frozenset[str]:
    """Return the secrets in a text, by their names and by their form. `\\0` separates several texts."""
    if not text:
        return frozenset()
    return frozenset([text[slice(*span)] for span in (*_named(text), *_forms(text, whole=True), *_passed_on(text))])


def _passed_on(text: str) -> Iterator[Span]:
    """Yield the values of variables that a script assigns to a variable for secrets: `A=hf_…; HF_TOKEN=$A`."""
    if "=$" not in text and '="$' not in text:
        return
    sources = dict[str, str]()
    for one in islice(_ALIAS.finditer(text), MAX_SECRETS):
        sources[one[1]] = one[2]
    wanted = set[str]()
    for name in filter(names, sources):
        while (name := sources.get(name, "")) and name not in wanted:
            wanted.add(name)
    if wanted:
        for assigned in re.finditer(rf"\b(?:{'|'.join(wanted)})=", text):
            yield from (span for span in _values(text, assigned.end()) if is_secret(text[slice(*span)]))


def _is_sparse(text: str) -> bool:
    """Return whether the text is short enough, and has few enough words and signs that can announce a secret."""
    if len(text) <= MOST_SIGNS:  # each begins at another character
        return True
    if len(text) > MOST_TEXT:
        return False
    signs = sum(map(text.count, ("://", "&", "?", *_STARTS)))
    return signs + sum(map(_lower(text).count, _STEMS)) <= MOST_SIGNS


# ── In an object ─────────────────────────────────────────────────────────────────────────────────────────────────────

_BLANK = re.compile(r"\s")
_ANOTHER = re.compile(r"\s--?[A-Za-z]")
"""Another flag of a command line."""
Place = tuple[Any, Any] | None
"""The place of the parent, and the key or index in it; None for the object itself. A linked list, so that the cost of a
place does not grow with its depth."""
_VALUES = ("value", "default", "val")
_LISTS, _MAPPINGS, _NUMBERS = (list, tuple), (dict, Mapping), (int, float)
_TREES = (dict, list, tuple, Mapping)
"""Mapping comes last: to ask an abstract class takes ten times as long."""
_Queue = list[tuple[Place, Any, bool]]
"""Values to look at, each with its place and whether it is in a secret."""


class _TooLargeError(Exception):
    """More than MOST_VALUES values."""


def _leaves(trees: Iterable[Any], texts: list[str]) -> list[tuple[Place, str]]:
    """Return the scalars that are secrets because of their place. Appends every text to `texts`.

    Raises _TooLargeError.
    """
    found: list[tuple[Place, str]] = []
    queue: _Queue = [(None, tree, False) for tree in trees]
    left = MOST_VALUES
    while queue:
        place, tree, secret = queue.pop()
        left -= len(tree) if isinstance(tree, _TREES) else 1
        if left < 0:
            raise _TooLargeError
        if isinstance(tree, _LISTS):
            _of_list(place, tree, secret, queue, texts, found)
        elif isinstance(tree, _MAPPINGS):
            _of_mapping(place, tree, secret, queue, texts, found)
        elif isinstance(tree, str):
            texts.append(tree)
            if secret:
                found.append((place, tree))
    return found


def _at_most(most: int, values: Iterable[str]) -> set[str] | None:
    """Return the different values; None if there are more."""
    found = set[str]()
    for value in values:
        found.add(value)
        if len(found) > most:
            return None
    return found


def _of_mapping(
    place: Place,
    tree: Mapping[Any, Any],
    secret: bool,
    queue: _Queue,
    texts: list[str],
    found: list[tuple[Place, str]],
) -> None:
    named = tree.get("name") or tree.get("key")
    own: tuple[str, ...] = _VALUES if isinstance(named, str) and gives(named) else ()
    held = ("data", "stringData") if tree.get("kind") == "Secret" else ()
    own += held
    for key, value in tree.items():
        if type(value) is dict:
            queue.append(((place, key), value, secret or key in held))
            continue
        hides = secret or key in own or (isinstance(key, str) and len(key) <= _LONGEST and _names_secret(key))
        if isinstance(value, str):
            texts.append(value)
            if hides:
                found.append(((place, key), value))
        elif isinstance(value, _LISTS):
            queue.append(((place, key), value, hides))
        elif isinstance(value, _NUMBERS):
            if hides and not isinstance(value, bool):
                found.append(((place, key), str(value)))
        elif isinstance(value, Mapping):
            queue.append(((place, key), value, secret or key in held))
        elif hides and value is not None:
            found.append(((place, key), str(value)))


def _of_list(
    place: Place,
    tree: Collection[Any],
    secret: bool,
    queue: _Queue,
    texts: list[str],
    found: list[tuple[Place, str]],
) -> None:
    """Find also the words of a command: the word after a flag, and the part after its `=`."""
    follows = given = False
    for index, value in enumerate(tree):
        if not isinstance(value, str):
            follows = given = False
            if isinstance(value, _TREES):
                queue.append(((place, index), value, secret))
            elif secret and value is not None and not isinstance(value, bool):
                found.append(((place, index), str(value)))
            continue
        texts.append(value)
        name, joined, rest = value.partition("=")
        follows = follows and (value[:1] != "-" or (value[:2] != "--" and len(value) >= _LOOSE))
        given = secret or follows or (given and _KEY.fullmatch(value) is not None)
        if given:
            found.append(((place, index), value))
        elif joined and gives(name) and not (_BLANK.search(name) or _is_line(name, rest)):
            found.append((None, rest))
        follows = value[:1] in _DASHES and not rest and gives(name) if value else False


_KEY = re.compile(r"(?=\D*\d)[A-Za-z0-9+=]{16,}")
"""One more key after the first (`--api-key KEY KEY`). The names of models have dashes, dots or slashes."""


def _is_line(name: str, rest: str) -> bool:
    """Return whether more of a command line follows the value."""
    return (_ANOTHER if name[0] in _DASHES else _BLANK).search(rest) is not None


# ── Masks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Secrets:
    """The secrets in objects, texts and lists of words. The search runs when the first text is masked."""

    trees: tuple[Any, ...] = field(default=(), compare=False)
    show: bool = False
    """Mask nothing."""
    make_quotable: Callable[[], Quotable | None] = field(default=Quotable, compare=False)
    """Make what texts about the objects may quote."""

    @classmethod
    def of(cls, *trees: Any) -> Secrets:
        """Return the secrets in `trees`: JSON values. A list of texts in them can be the words of a command."""
        return cls(trees)

    @cached_property
    def quotable(self) -> Quotable | None:
        """What texts about the objects may quote; None if they are too large."""
        return self.make_quotable()

    @cached_property
    def values(self) -> frozenset[str] | None:
        """The secrets; None if the trees are too large to search."""
        texts: list[str] = []
        try:
            found = (_bare(value) for _, value in _leaves(self.trees, texts) if is_secret(value))
            values = _at_most(MAX_SECRETS, found)
        except _TooLargeError:
            return None
        if values is None:
            return None
        text = "\0".join(dict.fromkeys([text for text in texts if len(text) <= LONG]))
        if not _is_sparse(text):
            return None
        return secrets_in(text) | values

    @cached_property
    def places(self) -> tuple[tuple[str | int, ...], ...]:
        """The places of values in the first tree that are secrets as a whole; at most MAX_SECRETS."""
        if self.show:
            return ()
        try:
            leaves = _leaves(self.trees[:1], [])
        except _TooLargeError:  # then all is withheld
            return ()
        places = (place for place, value in leaves if place is not None and is_secret(value))
        return tuple([_parts(place) for place in islice(places, MAX_SECRETS)])

    @cached_property
    def _known(self) -> tuple[tuple[str, bool, str], ...]:
        """The spellings of the secrets, longest first, each with whether it is masked inside other words, and its first
        characters, which most texts do not contain."""
        strong = {
            canonical(spelling): _is_loose(spelling)
            for value in self.values or ()
            if not _is_weak(value)
            for spelling in _spellings(value)
            if not _is_weak(spelling) and is_secret(spelling)
        }
        longest_first = sorted(strong.items(), key=lambda one: -len(one[0]))
        return tuple([(secret, loose, secret[:_HEAD]) for secret, loose in longest_first])

    @cached_property
    def _weak(self) -> frozenset[str]:
        return frozenset([value for value in self.values or () if _is_weak(value)])

    def masked(self, text: str, *, quoted: bool = False, is_value: bool = False) -> str:
        """Return `text` with a star for each character of a secret and of what texts may not quote.

        `quoted`: the text comes from a log or a file and is not a message of podfit, so the value after the name of a
        secret is one. `is_value`: it is a value of the object.
        """
        if self.show or not text:
            return text
        if self.values is None or len(self.values) > MAX_SECRETS or (self.quotable is None and not quoted):
            return WITHHELD
        if len(text) > LONG and not quoted:
            return f"(not shown: {len(text):,} characters)"
        spans = [*self._spans(text), *_forms(text), *_named(text, joined=not quoted)]
        if self._weak and not quoted:
            spans += [span for span in _named(text) if text[slice(*span)] in self._weak]
        if self.quotable is not None and not quoted:
            spans += self.quotable.spans(text, is_value=is_value)
        return _starred(text, spans) if spans else text

    def source_line(self, line: str) -> str:
        """Return a line of the objects' file with stars for secrets, comments, and all else that may not be quoted."""
        if self.show or not line:
            return line
        masked = self.masked(line, quoted=True)
        if self.quotable is None or len(masked) != len(line):
            return WITHHELD
        return _starred(masked, self.quotable.spans_of_source(line))

    def line(self, text: str, *, quoted: bool = False) -> str:
        """Return the masked text as one line without control characters and of bounded length."""
        return shortened(one_line(self.masked(text, quoted=quoted)))

    def shown(self, value: Any, name: str = "") -> Any:
        """Return a JSON value with masked texts. `name`: the argument, variable or key of the value."""
        if self.show:
            return value
        if isinstance(value, Mapping):
            return {self.masked(str(key)): self.shown(one, str(key)) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.shown(one, name) for one in value]
        hides = bool(name) and value is not None and not isinstance(value, bool) and names(name)
        if hides and is_secret(str(value)):
            return "*" * len(str(value))
        return self.masked(value, is_value=True) if isinstance(value, str) else value

    def holds(self, text: str) -> bool:
        """Return whether `masked` changes the text."""
        return self.masked(text) != text

    def hold(self, value: Any) -> bool:
        """Return whether a text in `value`, a JSON value, contains a secret, or cannot be searched.

        A word that a message must not quote is none: its author has written the value."""
        texts: list[str] = []
        try:
            _leaves((value,), texts)
        except _TooLargeError:
            return True
        return any(self.masked(text, quoted=True) != text for text in texts)

    def _spans(self, text: str) -> Iterator[Span]:
        """Places of known secrets in a text; short ones only as whole words."""
        if not self._known:
            return
        written = canonical(text)
        for secret, loose, head in self._known:
            if head not in written:
                continue
            at = written.find(secret)
            while at >= 0:
                end = at + len(secret)
                if loose or not (_in_word(written, at - 1) or _in_word(written, end)):
                    yield at, end
                at = written.find(secret, end)
            if loose and len(secret) > _HEAD:
                yield from _beginnings(written, secret)


def _beginnings(text: str, secret: str) -> Iterator[Span]:
    """Yield the places at which a word ends with the first half of the secret or more of it."""
    at = -1
    for _ in range(_TRIES):
        at = text.find(secret[:_HEAD], at + 1)
        if at < 0:
            return
        end = at + _common(text[at : at + _FAR], secret[:_FAR])
        if (end - at == _FAR or 2 * (end - at) >= len(secret)) and not _in_word(text, end):
            yield at, end


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _parts(place: Place) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    while place is not None:
        place, part = place
        parts.append(part)
    return tuple(reversed(parts))


def _is_loose(secret: str) -> bool:
    """Return whether the secret is so unlike a word that it is masked inside other words."""
    return len(secret) >= 2 * _LOOSE or (len(secret) >= _LOOSE and _LIKE_WORDS.fullmatch(secret) is None)


def _in_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "-")


def _starred(text: str, spans: Iterable[Span]) -> str:
    """The text with `*` for each character of these places."""
    out, at = [], 0
    for start, end in sorted(spans):
        if end > at:
            start = max(start, at)
            out += [text[at:start], "*" * (end - start)]
            at = end
    return "".join([*out, text[at:]])


def has_form(text: str) -> bool:
    """Return whether the text contains the prefix of a known kind of token."""
    return any(start in text for start in _STARTS)


FORMS = Secrets()
"""Masks texts that have the form of a secret, without an object."""
SHOWN = Secrets(show=True)
"""Masks nothing, for users who ask to see secrets."""
