"""Helpers of the rules about flags: how certain it is that the parser is the one of the table, and which field set a
value."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath, is_object
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty
from podfit.vllm import release
from podfit.vllm.args import UnrecognizedFlag, settings
from podfit.vllm.args.flags import Parser, builtin
from podfit.vllm.command import Word, edit, python
from podfit.vllm.release import Release

_UNSPLIT = regex(r"--?[A-Za-z][\w.-]*(\s+\S|=[^\s{\['\"]+\s+--?[A-Za-z]).*", re.DOTALL)
"""A word with a flag and more: `--host 0.0.0.0`, `--tp=2 --pp=2`."""
_WITHOUT_DASHES = regex(r"(?:--? +)?(?P<flag>[a-z][a-z0-9_-]+)=(?P<value>.*)", re.DOTALL)
"""`gpu-memory-utilization=0.9`, `-- host=0.0.0.0`."""
_YAML_KEY = regex(
    r"(env|envFrom|name|value|valueFrom|ports|containerPort|resources|limits|requests|volumeMounts|mountPath|volumes|"
    r"image|imagePullPolicy|command|args|livenessProbe|readinessProbe|startupProbe|httpGet|path|securityContext):"
)
"""A key of YAML that became a word of a list."""

_NAME = regex(r"\w+")
_CODE = regex(r"/(site|dist)-packages(/|$)|/python3?[\d.]*$|/vllm(-workspace)?/vllm(/|$)|/bin/vllm$")
"""The paths of installed Python code and of vLLM's own program."""
_NO_CODE = regex(r"\.(json|jinja|ya?ml|txt)$|/configs$")
"""Tables of tuned kernels and templates that are among the code."""


def is_since(engine: Engine, first: Release) -> bool:
    """True if the release is known, and not older than `first`."""
    return engine.release is not None and engine.release >= first


def is_changed(engine: Engine) -> bool:
    """True if Python code of the user may run in place of vLLM's or Transformers' code.

    Files may be mounted or written over it, a variable or a folder may come first in Python's search path, or the vLLM
    that runs may not be the image's."""
    if not engine.command.changes.isdisjoint(("code", "vllm")):
        return True
    return any(_is_code(mount.path) for mount in engine.mounts)


def _is_code(path: str) -> bool:
    """True if a mount at the path may hold Python code that vLLM imports."""
    if python.holds_code(path):
        return True
    return _CODE.search(path) is not None and _NO_CODE.search(path) is None


def runs_vllms_code(engine: Engine) -> bool:
    """True if the image is vLLM's own, of any release, or one that the policy vouches for, and nothing changes its
    code."""
    image = engine.field("image")
    official = engine.vouched or (isinstance(image, str) and release.is_official(image))
    return official and not is_changed(engine)


_UNTABLED_FLAGS = {Release(0, 4, 2): "--max-seq_len-to-capture", Release(0, 6, 5): "--mm-cache-preprocessor"}
"""Release between those of the table → a flag of its own, which none of the table's has (engine/arg_utils.py)."""


def certainty(engine: Engine) -> Certainty:
    """The certainty that vLLM's parser is that of the engine's release. Certain for a known release in vLLM's own
    image, or in an image that the policy vouches for; else likely.

    A fork, a future `latest` image, or changed code may know more flags."""
    release = engine.release
    if release is None or _has_untabled_flag(engine, release) or not runs_vllms_code(engine):
        return "likely"
    return "certain"


def _has_untabled_flag(engine: Engine, release: Release) -> bool:
    """True if the command has the flag of `_UNTABLED_FLAGS`, which only a commit after the release knows."""
    flag = _UNTABLED_FLAGS.get(release)
    return flag is not None and any(word.text.partition("=")[0] == flag for word in engine.command.words)


def uncertain(engine: Engine) -> str | None:
    """The reason why `certainty` is not "certain"; None if it is."""
    if certainty(engine) == "certain":
        return None
    image = engine.field("image") or "none"
    if "vllm" in engine.command.changes:
        return "the vLLM that runs is not the image's"
    if engine.release is not None and is_changed(engine):
        return "other Python code may run than the image's"
    if engine.release is not None and _has_untabled_flag(engine, engine.release):
        return f"vLLM {engine.release} has a flag that no other release has, {_UNTABLED_FLAGS[engine.release]}"
    if engine.release is None:
        return f"image {str(image)!r} names no vLLM release that is known"
    return f"image {str(image)!r} is none of vLLM's own, and a fork may know more"


def registry_certainty(engine: Engine) -> Certainty:
    """The certainty of a finding on a name that vLLM looks up in a registry (parsers, connectors, backends, models).

    A plugin may have added names to the registry. A plugin is a Python package that is installed next to vLLM
    (vLLM 0.33 plugins/__init__.py)."""
    return "likely" if engine.command.changes or names_plugins(engine) else certainty(engine)


def value_certainty(engine: Engine) -> Certainty:
    """The certainty of a finding on a value that the release does not know: a release between or after those of the
    table may."""
    return registry_certainty(engine) if engine.args.parser_known else "possible"


def names_plugins(engine: Engine) -> bool:
    """True if VLLM_PLUGINS names the plugins to load, which shows that the image has some; its value need not be known.

    A variable that an unseen `envFrom` source may set does not count: vLLM's own image has no plugins."""
    return "VLLM_PLUGINS" in engine.declared or "VLLM_PLUGINS" in engine.command.env


def named(engine: Engine) -> str:
    """The releases that a message is about: "vLLM 0.11.0", or "every vLLM release that is known" of an unknown one."""
    return f"vLLM {engine.release}" if engine.release else "every vLLM release that is known"


def life(refusal: settings.Refusal, release: Release | None) -> str:
    """The end of a message on a flag or value that `release` does not take: ": new in 0.24.0", ": known until 0.11.0".

    It is "" if no other release takes it, or if `release` is None."""
    if release is None or refusal.first is None or refusal.last is None:
        return ""
    return f": new in {refusal.first}" if refusal.first > release else f": known until {refusal.last}"


def substitute(engine: Engine, first: int, count: int, *words: str) -> tuple[Edit, ...]:
    """The edits that write `words` in place of `count` words of the command from the index `first` on; none if that
    can't be done safely."""
    return edit.substitute(engine.workload.object, engine.command, first, count, words)


def in_file(engine: Engine, index: int) -> str:
    """The file of a flag or value outside the command, as ", in /etc/vllm.yaml"; "" if it is in the command."""
    words = engine.command.words
    config = 0 <= index < len(words) and words[index].text.partition("=")[0] == "--config"
    return f", in {engine.args.written.get('config')}" if config else ""


BACKEND_VARIABLE = Release(0, 10, 1), Release(0, 14, 99)
"""vLLM rejects a VLLM_ATTENTION_BACKEND that is not a backend's name (read in vLLM 0.10.1.1 … 0.12
attention/selector.py, 0.13 and 0.14.1 envs.py). Earlier releases choose another backend; later ones ignore the
variable."""


def variable_at(engine: Engine, name: str) -> FieldPath:
    """The path of a variable's value in `env`, or of its entry if that has no `value`; else of the command."""
    value = engine.field("env")
    for number, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict) and entry.get("name") == name:
            return engine.at("env", number, "value") if "value" in entry else engine.at("env", number)
    return engine.command.path


def from_json(engine: Engine) -> list[tuple[str, Mapping[str, Any]]]:
    """(dest, JSON object) of each given argument that fills a config class of vLLM, in the order of the dests. Left out
    are values that are not objects, and those that a tool or a variable may still change."""
    args = engine.args
    dests = sorted(settings.config_arguments().intersection(args.given))
    return [(dest, args.given[dest]) for dest in dests if is_object(args.given[dest]) and args.is_sure(dest)]


def parser(engine: Engine) -> Parser | None:
    """The options that the engine's release knows, by its entrypoint; None if the release is not in the table."""
    table = builtin()
    if engine.release not in table.releases:
        return None
    return table.parser(engine.release, "module" if engine.command.entry == "module" else "serve")


def parser_near(engine: Engine) -> Parser | None:
    """The parser of the engine's release, or of the newest older one in the table, for suggestions. None if the release
    is unknown, or older than all of the table."""
    if engine.release is None:
        return None
    releases = [known for known in builtin().releases if known <= engine.release]  # oldest first
    entry = "module" if engine.command.entry == "module" else "serve"
    return builtin().parser(releases[-1], entry) if releases else None


def spellings(engine: Engine) -> Container[str]:
    """The flags that the engine's release knows; none if it is not in the table."""
    known = parser(engine)
    return known.spellings if known else ()


def command_text(engine: Engine) -> str:
    """All words of the command in one text, separated by NUL: one search in it is faster than one in each word, and
    most commands have nothing to find."""
    return "\0".join([word.text for word in engine.command.words])


def has_a_sign(engine: Engine) -> bool:
    """True if a word of the command has an equals sign, or ends with a colon."""
    text = engine.once(command_text)
    return "=" in text or ":\0" in text or text[-1:] == ":"


def comment(engine: Engine) -> range:
    """The indices of a script's words that were meant as a comment: all from the first one on that begins with a blank
    and `#`. The blank is escaped by a backslash, so the `#` does not begin a comment. Empty if there is none."""
    words = engine.command.words if engine.command.shell else ()
    for index, word in enumerate(words):
        if word.text.startswith((" #", "\t#")):
            return range(index, len(words))
    return range(0)


def unsplit(engine: Engine) -> dict[int, Word]:
    """Index → word that holds a flag and its value, such as "--port 8000" as one item of a list. Empty for a script,
    whose words the shell has split."""
    if engine.command.shell or len(engine.once(command_text).split(maxsplit=1)) < 2:
        return {}  # no word has a blank
    entries = {}
    for index, word in enumerate(engine.command.words):
        has_two_parts = word.text[:1] == "-" and len(word.text.split(maxsplit=1)) == 2  # quick, for most words
        if has_two_parts and not word.unknown and _UNSPLIT.fullmatch(word.text):
            entries[index] = word
    return entries


def dropped(engine: Engine) -> Word | None:
    """The word that the api_server module takes for a positional `model_tag` and ignores; None if there is none."""
    args = engine.args
    if not args.unserved:
        return None
    place, text = args.places.get("model"), args.given.get("model")
    for word in engine.command.words:
        if word.path == place and word.text == text:
            return word
    return None


TWO_COLONS = frozenset({"command:", "args:", "env:", "image:"})
"""The keys that YAML reads from `args::` and the like, which are typos."""


def misplaced(engine: Engine) -> dict[int, str]:
    """Index of a misplaced word → the word that was probably meant, such as "--port=8000" for "port=8000"; "" for a key
    of YAML. Empty for a wrapper around vLLM, which may have arguments of another form."""
    if engine.command.own_flags or not has_a_sign(engine):
        return {}
    spellings = builtin().spellings
    entries = {}
    for index, word in enumerate(engine.command.words):
        if word.unknown or not ("=" in word.text or word.text[-1:] == ":"):
            continue
        if word.text[:2] == "--" and word.text[2:3] != " ":
            continue  # --flag=value
        without = _WITHOUT_DASHES.fullmatch(word.text)
        if without is not None and f"--{without['flag'].replace('_', '-')}" in spellings:
            entries[index] = f"--{without['flag']}={without['value']}"
        elif _YAML_KEY.fullmatch(word.text):
            entries[index] = ""
    return entries


def unknown(engine: Engine) -> Iterator[UnrecognizedFlag]:
    """The flags that this release does not know, and that no other rule explains better."""
    return (flag for flag in engine.args.unknown if flag.index not in explained(engine))


def spoilt(engine: Engine, dest: str) -> bool:
    """True if the command has the argument, but vLLM's parser rejects its value, its name, or the word that it is in.
    Another rule reports that, so the caller need not report its effects."""
    args, flag = engine.args, f"--{dest.replace('_', '-')}"
    if dest in args.given or dest in args.unresolved:
        return False
    if dest in args.written:
        return True  # its value is rejected
    misspelled = (*args.unknown, *(args.unrecognized if engine.command.guessed else ()))
    if any(unrecognized_flag.suggestion == flag for unrecognized_flag in misspelled):
        return True
    ignored = dropped(engine)
    rejected = {index for index, word in engine.once(unsplit).items() if word is not ignored}
    rejected |= {error.index for error in args.errors}
    # The word before it may be the flag, with another dash, which the module takes for its positional argument.
    indices = rejected | {index - 1 for index in rejected}
    words = engine.command.words
    return any(dest in _names(words[index].text) for index in indices if 0 <= index < len(words))


def _names(text: str) -> set[str]:
    """The names in a word, with underscores: max_model_len for `–max-model-len` and `--max-model-len 8192`."""
    return {name.strip("_") for name in _NAME.findall(text.replace("-", "_"))}


def explained(engine: Engine) -> set[int]:
    """The indices of words that another rule explains better than `unknown-flag` does: unsplit and misplaced ones, and
    those of a comment. All of them if the entrypoint is repeated, or if no shell runs the script."""
    if engine.command.repeated or engine.command.unclosed:
        return set(range(len(engine.command.words)))
    return {*engine.once(unsplit), *engine.once(misplaced), *engine.once(comment)}
