"""Words → the words that argparse gets: what vLLM's FlexibleArgumentParser does before it parses.

It moves the model to the front and expands `--config` files, underscores, `-O3` and `--config.key value`. All of it is
`FlexibleArgumentParser.parse_args` of vllm/utils.py (until 0.11.0) and vllm/utils/argparse_utils.py (since 0.11.1).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath
from podfit.vllm.args.flags import Parser
from podfit.vllm.args.values import DEEPEST, TOO_DEEP, InvalidValueError, UnreadableValueError, from_json, human_int
from podfit.vllm.command import Command
from podfit.vllm.release import Release


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the command line, before argparse reads it."""

    text: str
    path: FieldPath
    index: int
    """Index of the word in the command, or of the word that it comes from, to compare readings of two releases."""
    unknown: str | None = None
    """Why its text is unknown."""
    doubtful: str | None = None
    """Why vLLM probably gets another text than the manifest has."""

    @property
    def why(self) -> str | None:
        """Why an invalid value is not reported as an error."""
        return self.unknown or self.doubtful

    @property
    def open(self) -> str | None:
        """Why it may expand to any number of words, of any kind: `$EXTRA_ARGS`. None if it is one word."""
        if not self.unknown and not self.doubtful:
            return None
        text = self.text
        if self.unknown and (not text or (text.startswith("-") and "=" not in text)):
            return self.unknown
        return self.why if text.startswith(("$", "`", "{{")) else None


@dataclass
class ArgparseWords:
    """The words that argparse gets, and the errors before that."""

    tokens: list[Token]
    errors: list[tuple[str, Token]] = field(default_factory=list)
    open: str | None = None
    """Why there may be more arguments than these."""
    config: str | None = None
    """The file that `--config` names."""


_REFERENCE = regex(r"\$\((?P<pod>\w+)\)|\$\{\w[^}]{0,200}\}|\$\w+|\{\{[-\s]*[.$(\w].*|<[A-Za-z][\w -]*>|`.+`")


class CommandLine(NamedTuple):
    """A command's words as tokens."""

    tokens: Sequence[Token]
    line: str
    """The texts of all tokens, for one quick check that lets most commands skip further steps."""


def command_line_of(command: Command, text: str) -> CommandLine:
    """The command's words as tokens; `text`: all their texts."""
    words = command.words
    if not ("$" in text or "`" in text or "<" in text or "{{" in text):  # no sign of a `_REFERENCE`
        return CommandLine([Token(word.text, word.path, index, word.unknown) for index, word in enumerate(words)], text)
    doubts = [None if word.unknown else _unexpanded(word.text, command.shell) for word in words]
    tokens = [Token(word.text, word.path, index, word.unknown, doubts[index]) for index, word in enumerate(words)]
    return CommandLine(tokens, text)


def _unexpanded(text: str, shell: bool) -> str | None:
    """Why vLLM may get another word: a variable, a template action or a placeholder in it that nothing expands."""
    match = _REFERENCE.search(text)
    if match is None:
        return None
    reference = match[0]
    if match["pod"]:
        return f"{reference} refers to a variable that the manifest does not define"
    if reference.startswith(("{{", "<")):
        return f"{reference} is a placeholder"
    return f"{reference} is not expanded" + ("" if shell else " in exec form")


_MODEL_BEFORE_ALL = Release(0, 8, 1), Release(0, 11, 1)
"""`vllm serve --model X` is an error from the first to before the second; from then on X is moved to the front.
Observed in 0.8.5 … 0.11.0 and in 0.11.1; the check does not find `--model=X`."""
_NAME_NEEDS_MODEL = Release(0, 17)
"""`vllm serve --served-model-name N X` is an error from this release on (observed in 0.17.1)."""
_NESTED_CONFIG = Release(0, 16)
"""From this release on, nested mappings of a `--config` file become JSON."""
_NEGATED_CONFIG = Release(0, 28)
"""`key: false` in a `--config` file becomes `--no-key` from this release on, with the api_server module."""
_DOTTED, _DOTTED_SHORT, _DOTTED_HUMAN = Release(0, 9), Release(0, 9, 2), Release(0, 20)
_LEVEL_WORD = Release(0, 9, 2)
"""From this release on, `-O3` becomes `-O.level=3`, …"""
_MODE_WORD = Release(0, 11, 1)
"""… from this one `-O.mode=3`, …"""
_OPTIMIZATION_LEVEL = Release(0, 12)
"""… and from this one `--optimization-level 3`."""


def prepare_words(command: Command, line: CommandLine, parser: Parser) -> ArgparseWords:
    """The words that argparse would get of the command (`line` has its words), in the release of `parser`."""
    words, text = ArgparseWords(list(line.tokens)), line.line
    if parser.entry == "serve" and "--" in text:
        _model_first(words, parser, text)
    if "--config" in text:
        _config(words, command, parser)
        text = "\n".join([token.text for token in words.tokens])
    if parser.underscores and "_" in text:
        words.tokens = [_with_dashes(token) if "_" in token.text else token for token in words.tokens]
    if "-O" in text:
        words.tokens = _expand_optimization(words.tokens, parser.release)
    if ("." in text or "-O" in text) and parser.release >= _DOTTED:
        _merge_dotted_flags(words, parser.release)
    return words


def _model_first(argparse_words: ArgparseWords, parser: Parser, text: str) -> None:
    """Move the model of `--model` to the front, in releases that expect it first; note an error in releases that reject
    `--model`."""
    tokens, release = argparse_words.tokens, parser.release
    if release < _MODEL_BEFORE_ALL[0]:
        return
    if release < _MODEL_BEFORE_ALL[1]:
        for token in tokens:
            if token.text == "--model" and not token.open:
                argparse_words.errors.append((
                    "With `vllm serve`, you should provide the model as a positional argument or in a config file "
                    "instead of via the `--model` option.",
                    token,
                ))  # fmt: skip
                return
        return
    at = None
    if "--model" in text:
        at = next((n for n, t in enumerate(tokens) if re.match(r"--model(=.|$)", t.text) and not t.open), None)
    if at is not None:
        flag = tokens[at]
        if flag.text != "--model":
            model, rest = replace(flag, text=flag.text.removeprefix("--model=")), tokens[at + 1 :]
        elif at + 1 < len(tokens) and not tokens[at + 1].text.startswith("-"):
            model, rest = tokens[at + 1], tokens[at + 2 :]
        else:
            argparse_words.errors.append(("argument --model: expected one argument", flag))
            argparse_words.tokens = tokens[:at] + tokens[at + 1 :]
            return
        argparse_words.tokens = tokens = [model, *tokens[:at], *rest]
    if release >= _NAME_NEEDS_MODEL and tokens and tokens[0].text.startswith("-") and not tokens[0].open:
        name = next((t for t in tokens if re.match(r"--served[-_]model[-_]name(=.|$)", t.text) and not t.open), None)
        if name is not None and not any(re.match(r"--config(=.|$)", t.text) for t in tokens):
            argparse_words.errors.append((
                "`model` should be provided as the first positional argument when using `vllm serve`. "
                "i.e. `vllm serve <model> --<arg> <value>`.",
                name,
            ))  # fmt: skip


def _config(argparse_words: ArgparseWords, command: Command, parser: Parser) -> None:
    """Replaces `--config FILE` (these two words exactly) by the file's settings, before the other flags."""
    tokens = argparse_words.tokens
    places = [n for n, token in enumerate(tokens) if token.text == "--config" and not token.open]
    if not places or parser.release < Release(0, 6):
        return
    at, flag = places[0], tokens[places[0]]
    if len(places) > 1:
        argparse_words.errors.append(("More than one config file specified!", tokens[places[1]]))
    if at == len(tokens) - 1:
        argparse_words.errors.append(("No config file specified! Please check your command-line arguments.", flag))
        argparse_words.tokens = tokens[:at]
        return
    file, rest = tokens[at + 1], tokens[:at] + tokens[at + 2 :]
    argparse_words.tokens, argparse_words.config = rest, file.text
    if file.why:
        argparse_words.open = f"the config file is unknown: {file.why}"
        return
    extension = file.text.rpartition(".")[2]
    if extension not in ("yaml", "yml"):
        argparse_words.errors.append((f"Config file must be of a yaml/yml type. {extension} supplied", file))
        return
    text = command.config.get(posixpath.normpath(file.text))
    if text is None:
        argparse_words.open = f"the content of the config file {file.text} is unknown"
        return
    settings = _settings(text)
    if isinstance(settings, str):
        argparse_words.open = f"the config file {file.text} {settings}"
        return
    inserted = [replace(flag, text=text) for text in _config_words(settings, parser)]
    named = parser.entry == "serve" and bool(rest) and not rest[0].text.startswith("-")
    model = any(token.text == "--model" for token in inserted)
    if parser.entry == "serve" and not named and not model:
        argparse_words.errors.append((
            "No model specified! Please specify model either as a positional argument or in a config file.", flag
        ))  # fmt: skip
    argparse_words.tokens = [*rest[:named], *inserted, *rest[named:]]


def _settings(text: str) -> Mapping[Any, Any] | str:
    """The settings in the file, or why they are unknown. podfit reports no problem with a file that it can't read."""
    import yaml  # here, because few commands use a config file

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            return "uses YAML aliases"  # a few bytes of aliases can expand to a very long text
        settings = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError):
        return "is not valid YAML"
    return settings if isinstance(settings, dict) else "is not a YAML mapping"


def _config_words(settings: Mapping[Any, Any], parser: Parser) -> list[str]:
    """The settings of a `--config` file as words of a command line."""
    words: list[str] = []
    for key, value in settings.items():
        flag = f"--{key}"
        if value is True:
            words.append(flag)
        elif value is False:
            negated = f"--no-{key}"
            if parser.release >= _NEGATED_CONFIG and parser.entry == "module" and negated in parser.spellings:
                words.append(negated)
        elif isinstance(value, list):
            words += [flag, *map(str, value)] if value else []
        elif isinstance(value, dict) and parser.release >= _NESTED_CONFIG:
            words += [flag, json.dumps(value, default=str)]
        else:
            words += [flag, str(value)]
    return words


def _with_dashes(token: Token) -> Token:
    """The token with dashes in the flag's name: `--some_flag.some_key=some_value` →
    `--some-flag.some_key=some_value`."""
    text = token.text
    if not text.startswith("--"):
        return token
    end = re.search(r"[.=]|$", text)
    cut = end.start() if end else len(text)
    return replace(token, text=text[:cut].replace("_", "-") + text[cut:])


def _expand_optimization(tokens: list[Token], release: Release) -> list[Token]:
    """`-O3` and `-O 3` → the flags by which the release replaces them."""
    if release < _LEVEL_WORD or "-O" not in {token.text[:2] for token in tokens}:
        return tokens
    key = "level" if release < _MODE_WORD else "mode"
    out: list[Token] = []
    for at, token in enumerate(tokens):
        text = token.text
        bare = text == "-O" and at + 1 < len(tokens) and tokens[at + 1].text in ("0", "1", "2", "3")
        joined = text.startswith("-O") and len(text) > 2
        if release >= _OPTIMIZATION_LEVEL and (bare or joined):
            out.append(replace(token, text="--optimization-level"))
            if joined:
                out.append(replace(token, text=text[2:].removeprefix("=")))
        elif bare:
            out.append(replace(token, text=f"-O.{key}"))
        elif joined and text[2] != ".":
            out.append(replace(token, text=f"-O.{key}={text[2:].removeprefix('=')}"))
        else:
            out.append(token)
    return out


def _merge_dotted_flags(argparse_words: ArgparseWords, release: Release) -> None:
    """Merges `--config.key value` into one `--config '{"key": value}'` at the end, per flag."""
    prefix = "-" if release >= _DOTTED_SHORT else "--"
    if not [True for token in argparse_words.tokens if token.text[:1] == "-" and "." in token.text.partition("=")[0]]:
        return
    kept: list[Token] = []
    merged: dict[str, tuple[Token, dict[str, Any]]] = {}
    tokens = iter(argparse_words.tokens)
    for token in tokens:
        name, equals, text = token.text.partition("=")
        if not token.text.startswith(prefix) or "." not in name or token.open:
            kept.append(token)
            continue
        value = token
        if not equals:
            following = next(tokens, None)
            if following is None:
                argparse_words.errors.append((f"argument {name}: expected one argument", token))
                continue
            value, text = following, following.text
        flag, *keys = name.removesuffix("+").split(".")
        first, merged_value = merged.setdefault(flag, (token, {}))
        try:
            nested: Any = text.split(",") if name.endswith("+") else _dotted_value(text, release)
        except UnreadableValueError as why:
            merged[flag] = (replace(first, unknown=str(why)), merged_value)
            continue
        if len(keys) > DEEPEST:
            merged[flag] = (replace(first, unknown=TOO_DEEP), merged_value)
            continue
        for key in reversed(keys):
            nested = {key: nested}
        _merge_nested(merged_value, nested)
        unknown, doubtful = first.unknown or value.unknown, first.doubtful or value.doubtful
        merged[flag] = (replace(first, unknown=unknown, doubtful=doubtful), merged_value)
    for flag, (token, merged_value) in merged.items():
        kept += [replace(token, text=flag, unknown=None, doubtful=None), replace(token, text=json.dumps(merged_value))]
    argparse_words.tokens = kept


def _dotted_value(text: str, release: Release) -> Any:
    """The JSON value of `--config.key value`; in newer releases also a number such as `1k`; else the text."""
    try:
        return from_json(text)
    except ValueError:
        if release >= _DOTTED_HUMAN:
            try:
                return human_int(text)
            except (ValueError, OverflowError, InvalidValueError):
                pass
        return text


def _merge_nested(target: dict[str, Any], update: dict[str, Any]) -> None:
    """Merge `update` into `target`: objects key by key, lists appended."""
    for key, value in update.items():
        old = target.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _merge_nested(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            old += value
        else:
            target[key] = value
