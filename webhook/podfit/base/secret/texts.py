"""Secrets in a text: known kinds of tokens, passwords in URLs, and values after the name of a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from podfit.base.lazy import regex
from podfit.base.logins import handed_on, passwords
from podfit.base.secret.names import MAX_NAME_LENGTH, VALUE_KEYS, gives, is_secret_name
from podfit.base.secret.values import LIKE_WORDS, LOOSE, PLACEHOLDER, SCHEME, is_secret, lowered

MAX_SECRETS = 256
"""Maximum number of secrets in one object. A text about an object with more is withheld, which bounds the search."""
Span = tuple[int, int]
"""Beginning and end of a part of a text."""
MAX_SIGNS, MAX_CHARACTERS = 10_000, 1 << 19
"""Maximum number of words and signs in one object that can announce a secret, and of characters in its texts. A text
about an object with more is withheld."""

STARTS = (
    "hf_", "api_org_", "sk-", "sk_", "rk_", "nvapi-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-",
    "xox", "AKIA", "ASIA", "AIza", "gsk_", "r8_", "dapi", "eyJ", "-----BEGIN",
    "hooks.slack.com/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/",
)  # fmt: skip
"""Prefixes of known kinds of tokens."""
_FORM = regex(
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
DASHES = "-‐‑‒–—―−"
"""Characters that begin a flag: the hyphen, and those that word processors put in its place."""
_OF_A_NAME = f"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.{DASHES}"
_REST = regex(r"[\w-]{0,80}")
_PAIR = regex(r"[\\\"']*+\s*+,?+\s*+[\\\"']*+value[\\\"']*+\s*+[:=]\s*+")
"""The text between name and value in `"name": "HF_TOKEN", "value": "hf_…"`."""
_ASSIGNED = regex(
    r"[\\\"'\])]*+[^\S\n]*+(?:=>|\+=|<<<|<<-?\s?[\\\"']?\w{1,40}[\"']?[^\S\n]*+\n|:[-=](?=[^\s}])|[=:](?![-+?]))[^\S\n]*+"
)
"""The text between a name and its value, also in `${NAME:-value}` and `read NAME <<< value`."""
_SPACED = regex(r"[\\\"'\]]*+[^\S\n]*+(?:,\s*+|(?:\\+\n\s*+)+|(?<=\s))")
"""The text between a flag and its value."""
_JOINED = regex(r"=")
_OPEN = regex(r"(?P<list>(?:[\[({]\s*+)*+)(?:\$(?=[\"']))?+(?P<quote>\\*+[\"'`])?+")
_PART = r"[\w.~+/=@%^$-]"
_GLUED = regex(rf"(?:\"{_PART}*+\"|'{_PART}*+')(?:{_PART}++|\"{_PART}*+\"|'{_PART}*+')*+")
"""More of a shell's word in other quotation marks: `'one''two'`, `one"two"`."""
_ALIAS = regex(r"\b([A-Za-z_]\w{0,79})=[\"']?\$\{?([A-Za-z_]\w{0,79})\}?[\"']?(?=[\s;&|\0]|\Z)")
"""`HF_TOKEN=$A`."""
_KEY_ENDS = regex(r"\\*+[\"'`]\s*+:\s*+")
_MORE = regex(r"\s*+,\s*+(?=\\*+[\"'`])")
_BARE = regex(
    r"(?:\$\([^)\0]{0,256}+\)|\$\{[^}\s]{0,64}+\}|[^\s\"'`\\,;&|)\]}<>\0]|\\.|[,;&|)\]}](?=[^\s\"'\\,;&|)\]}\0])(?![\"']?[\w.-]{1,64}[\"']?\s?[=:]))++"
)
_URL = regex(r"://[^\s\0\"'<>\\]+")
_STORAGE = regex(r"(?:s3[an]?|gs|gcs|oss|minio|r2)\Z", re.IGNORECASE)
"""Schemes of URLs whose user is an access key."""
_PORT = regex(r"\d+(?:/|$)")
_QUERY = regex(r"[?&;]([\w.-]{1,64})=([^&\s\0\"'#<>\\;]+)")
_SIGNED = frozenset({"sig", "signature", "x-amz-signature", "x-goog-signature", "x-amz-credential", "key"})


def _places(text: str, words: Iterable[str]) -> list[Span]:
    """Return the places of the words in `text`, sorted. One regular expression for all takes twenty times as long."""
    spans: list[Span] = []
    for word in [word for word in words if word in text]:
        at = text.find(word)
        while at >= 0:
            spans.append((at, at + len(word)))
            at = text.find(word, at + 1)
    spans.sort()
    return spans


def forms(text: str, *, with_prefix: bool = False) -> Iterator[Span]:
    """Yield the secrets that have the form of one. `with_prefix`: include the prefix of the kind (`hf_`)."""
    end = 0
    for at, _ in _places(text, STARTS):
        match = _FORM.match(text, at) if at >= end else None
        if match is not None and PLACEHOLDER.fullmatch(match[0]) is None:
            end = match.end()
            group = match.lastgroup or 0
            yield match.span(0 if with_prefix and group != "hook" else group)
    if "://" in text and "@" in text:
        yield from _passwords(text)
    if "=" in text and ("?" in text or "&" in text):
        for pair in _QUERY.finditer(text):
            if (is_secret_name(pair[1]) or pair[1].lower() in _SIGNED) and is_secret(pair[2]):
                yield pair.span(2)


def _passwords(text: str) -> Iterator[Span]:
    """Yield the password of `scheme://user:password@host`, or a token in place of the user. Yield the user, too, if it
    is an access key."""
    for url in _URL.finditer(text):
        at = url.start()
        is_storage = _STORAGE.search(text, max(0, at - 8), at) is not None  # its scheme, of at most 8 characters
        for part in url[0].split("://")[1:]:  # a URL may have another one in it
            at += len("://")
            yield from _password_of_url(part, at, is_storage=is_storage)
            at += len(part)


def _password_of_url(part: str, at: int, *, is_storage: bool) -> Iterator[Span]:
    """Yield the password or token in the part of a URL after `://`, and the user if it is an access key. `at`: the
    place of the part in the text; `is_storage`: the user is that of an object storage, where it is one."""
    authority, at_sign, _ = part.rpartition("@")
    user, colon, password = authority.partition(":")
    has_path_before = any(mark in user for mark in "/?#")  # the @ is not that of a user
    if not at_sign or has_path_before or _PORT.match(password):
        return
    is_like_word = LIKE_WORDS.fullmatch(user) is not None
    if not colon:  # a token, unless it is a user's name
        if len(user) >= LOOSE and not is_like_word and is_secret(user):
            yield at, at + len(user)
        return
    if not is_secret(password):
        return
    start = at + len(user) + len(":")
    yield start, start + len(password)
    if len(user) >= LOOSE and (is_storage or not is_like_word) and is_secret(user):
        yield at, at + len(user)


def named(text: str, *, joined: bool = False) -> Iterator[Span]:
    """Yield the values after names of secrets. `joined`: only values after `=`, for messages of podfit, in which a word
    after a name is prose."""
    done = 0  # the end of the last name or value
    for stem_start, stem_end in _places(lowered(text), _STEMS):
        if stem_start < done:
            continue
        begin, end = _name_around(text, stem_start, stem_end, done)
        done = end
        name = text[begin:end]
        if not _announces_secret(name):
            continue
        between = _separator(text, end, name, joined=joined)
        if between is None:
            continue
        is_spaced = between.re.pattern == _SPACED.pattern
        for span in _values(text, between.end()):
            value = text[slice(*span)]
            if value.startswith("${") and len(value) <= MAX_NAME_LENGTH:
                continue  # its default can be a secret
            done = max(done, span[1])
            is_next_flag = is_spaced and value.startswith("--")
            if is_secret(value) and not is_next_flag:
                yield span
    if not joined:
        for span in (*passwords(text), *handed_on(text, is_secret_name)):
            if is_secret(text[slice(*span)]):
                yield span


def _name_around(text: str, stem_start: int, stem_end: int, first: int) -> Span:
    """Return the place of the name that has a stem at this place. It begins at `first` or later, and has at most
    MAX_NAME_LENGTH characters before the stem."""
    before = text[max(first, stem_start - MAX_NAME_LENGTH) : stem_start]
    in_name = len(before) - len(before.rstrip(_OF_A_NAME))
    rest = _REST.match(text, stem_end)
    return stem_start - in_name, rest.end() if rest else stem_end


def _announces_secret(name: str) -> bool:
    """Return whether a value after this name is a secret: after a flag or a name of a secret, `KEY`, or `Bearer`."""
    if name.lower() == "bearer":
        return True
    if name[0] in DASHES:
        return gives(name)
    return is_secret_name(name) or name == "KEY"


def _separator(text: str, at: int, name: str, *, joined: bool) -> re.Match[str] | None:
    """Return the match of the text between a name, which ends at `at`, and its value; None if it has no value. White
    space separates only a flag or `Bearer` from it. `joined`: only `=` does."""
    if joined:
        return _JOINED.match(text, at)
    between = _PAIR.match(text, at) or _ASSIGNED.match(text, at)
    if between is None and (name[0] in DASHES or name.lower() == "bearer"):
        between = _SPACED.match(text, at)
    return between


def _values(text: str, at: int) -> Iterator[Span]:
    """Yield the place of the value at `at`, or those of the values of the list there, without quotation marks and the
    scheme of an Authorization header. In a JSON object, only the value of a key such as `value` is one."""
    opened = _OPEN.match(text, at)
    assert opened is not None  # noqa: S101  it matches nothing, too
    at, mark, in_list = opened.end(), opened["quote"], bool(opened["list"])
    while mark:
        end = _closing(text, at, mark)
        if "{" in opened["list"] and (key := _KEY_ENDS.match(text, end)):
            if text[at:end] in VALUE_KEYS:
                yield from _values(text, key.end())
            return  # another key of the object says itself what its value is
        start = SCHEME.match(text, at, end)
        at = start.end() if start else at
        yield at, end
        if glued := _GLUED.match(text, end + 1) if mark in "\"'" else None:
            yield at, glued.end()
        more = _MORE.match(text, end + len(mark)) if in_list else None
        again = _OPEN.match(text, more.end()) if more else None
        if again is None:
            return
        at, mark = again.end(), again["quote"]
    start = SCHEME.match(text, at)
    bare = _BARE.match(text, start.end() if start else at)
    if bare is not None:
        yield bare.start(), bare.start() + len(bare[0].rstrip(".:,;"))
        if glued := _GLUED.match(text, bare.end()):
            yield bare.start(), glued.end()


def _closing(text: str, at: int, mark: str) -> int:
    """Return the end of a quoted text: its quotation mark, or else the end of the line."""
    text_end = text.find("\0", at)
    text_end = len(text) if text_end < 0 else text_end
    end = text.find(mark, at, text_end)
    while end >= 0 and len(mark) == 1 and _odd(text, end):
        end = text.find(mark, end + 1, text_end)
    if end < 0:
        end = text.find("\n", at, text_end)
    return text_end if end < 0 else end


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
    spans = (*named(text), *forms(text, with_prefix=True), *_passed_on(text))
    return frozenset([text[start:end] for start, end in spans])


def _passed_on(text: str) -> Iterator[Span]:
    """Yield the values of variables that a script assigns to a variable for secrets: `A=hf_…; HF_TOKEN=$A`."""
    if "=$" not in text and '="$' not in text:
        return
    source_of = {alias[1]: alias[2] for alias in islice(_ALIAS.finditer(text), MAX_SECRETS)}  # HF_TOKEN → A
    variables = set[str]()  # from which a variable for secrets gets its value, also by way of others
    for name in filter(is_secret_name, source_of):
        source = source_of.get(name, "")
        while source and source not in variables:
            variables.add(source)
            source = source_of.get(source, "")
    if not variables:
        return
    for assignment in re.finditer(rf"\b(?:{'|'.join(variables)})=", text):
        for span in _values(text, assignment.end()):
            if is_secret(text[slice(*span)]):
                yield span


def is_sparse(text: str) -> bool:
    """Return whether the text is short enough, and has few enough words and signs that can announce a secret."""
    if len(text) <= MAX_SIGNS:  # each begins at another character
        return True
    if len(text) > MAX_CHARACTERS:
        return False
    signs = sum(map(text.count, ("://", "&", "?", *STARTS)))
    return signs + sum(map(lowered(text).count, _STEMS)) <= MAX_SIGNS
