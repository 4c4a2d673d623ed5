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
        is_unknown_flag = text.startswith("-") and "=" not in text  # `--flag$X`: a value would stay one word
        if self.unknown and (not text or is_unknown_flag):
            return self.unknown
        return self.why if text.startswith(("$", "`", "{{")) else None


class WordError(NamedTuple):
    """An error of vLLM before argparse reads the words."""

    message: str
    token: Token
    """The word that it is about."""


@dataclass
class ArgparseWords:
    """The words that argparse gets, and the errors before that."""

    tokens: list[Token]
    errors: list[WordError] = field(default_factory=list)
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
    """Why vLLM may get another word: a variable, a template action or a placeholder in it that nothing expands. None if
    there is none. `shell`: a shell has read the word."""
    match = _REFERENCE.search(text)
    if match is None:
        return None
    reference = match[0]
    if match["pod"]:
        return f"{reference} refers to a variable that the manifest does not define"
    if reference.startswith(("{{", "<")):
        return f"{reference} is a placeholder"
    return f"{reference} is not expanded" + ("" if shell else " in exec form")


_MODEL_FLAG_REJECTED, _MODEL_FLAG_MOVED = Release(0, 8, 1), Release(0, 11, 1)
"""`vllm serve --model X` is an error from the first to before the second; from then on X is moved to the front.
Observed in 0.8.5 … 0.11.0 and in 0.11.1; the check does not find `--model=X`."""
_NAME_NEEDS_MODEL = Release(0, 17)
"""`vllm serve --served-model-name N X` is an error from this release on (observed in 0.17.1)."""
_CONFIG_FILES = Release(0, 6)
"""From this release on, `--config` names a file (`FlexibleArgumentParser._pull_args_from_config`)."""
_NESTED_CONFIG = Release(0, 16)
"""From this release on, nested mappings of a `--config` file become JSON."""
_NEGATED_CONFIG = Release(0, 28)
"""`key: false` in a `--config` file becomes `--no-key` from this release on, with the api_server module."""
_DOTTED, _DOTTED_SHORT, _DOTTED_HUMAN = Release(0, 9), Release(0, 9, 2), Release(0, 20)
"""From these releases on, `--config.key value` is read; `-O.key value` too; and `1k` as a number in such a value."""
_LEVEL_WORD, _MODE_WORD, _OPTIMIZATION_LEVEL = Release(0, 9, 2), Release(0, 11, 1), Release(0, 12)
"""From these releases on, `-O3` becomes `-O.level=3`, `-O.mode=3` and `--optimization-level 3`."""


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


_MODEL_FLAG, _CONFIG_FLAG = regex(r"--model(=.|$)"), regex(r"--config(=.|$)")
_SERVED_NAME_FLAG = regex(r"--served[-_]model[-_]name(=.|$)")


def _first_flag(tokens: Sequence[Token], flag: re.Pattern[str]) -> int | None:
    """The index of the first word that certainly is this flag; None if there is none."""
    return next((at for at, token in enumerate(tokens) if flag.match(token.text) and not token.open), None)


def _model_first(argparse_words: ArgparseWords, parser: Parser, text: str) -> None:
    """Move the model of `--model` to the front, in releases that expect it first; note an error in releases that reject
    `--model`. `text`: the text of all words."""
    if parser.release < _MODEL_FLAG_REJECTED:
        return
    if parser.release < _MODEL_FLAG_MOVED:
        for token in argparse_words.tokens:
            if token.text == "--model" and not token.open:
                message = (
                    "With `vllm serve`, you should provide the model as a positional argument or in a config file "
                    "instead of via the `--model` option."
                )
                argparse_words.errors.append(WordError(message, token))
                return
        return
    if "--model" in text and not _move_model(argparse_words):
        return
    tokens = argparse_words.tokens
    if parser.release >= _NAME_NEEDS_MODEL and tokens and tokens[0].text.startswith("-") and not tokens[0].open:
        name = _first_flag(tokens, _SERVED_NAME_FLAG)
        if name is not None and not any(_CONFIG_FLAG.match(token.text) for token in tokens):
            message = (
                "`model` should be provided as the first positional argument when using `vllm serve`. "
                "i.e. `vllm serve <model> --<arg> <value>`."
            )
            argparse_words.errors.append(WordError(message, tokens[name]))


def _move_model(argparse_words: ArgparseWords) -> bool:
    """Move the model of the first `--model`, if there is one, to the front. False if the flag has no value: the error
    is noted, and the flag is left out."""
    tokens = argparse_words.tokens
    at = _first_flag(tokens, _MODEL_FLAG)
    if at is None:
        return True
    flag, before, after = tokens[at], tokens[:at], tokens[at + 1 :]
    if flag.text != "--model":
        argparse_words.tokens = [replace(flag, text=flag.text.removeprefix("--model=")), *before, *after]
    elif after and not after[0].text.startswith("-"):
        argparse_words.tokens = [after[0], *before, *after[1:]]
    else:
        argparse_words.errors.append(WordError("argument --model: expected one argument", flag))
        argparse_words.tokens = [*before, *after]
        return False
    return True


def _config(argparse_words: ArgparseWords, command: Command, parser: Parser) -> None:
    """Replaces `--config FILE` (these two words exactly) by the file's settings, before the other flags.

    If the settings are unknown, the two words are left out, and `open` has the reason.
    """
    tokens, errors = argparse_words.tokens, argparse_words.errors
    places = [at for at, token in enumerate(tokens) if token.text == "--config" and not token.open]
    if not places or parser.release < _CONFIG_FILES:
        return
    at, flag = places[0], tokens[places[0]]
    if len(places) > 1:
        errors.append(WordError("More than one config file specified!", tokens[places[1]]))
    if at == len(tokens) - 1:
        errors.append(WordError("No config file specified! Please check your command-line arguments.", flag))
        argparse_words.tokens = tokens[:at]
        return
    file, others = tokens[at + 1], tokens[:at] + tokens[at + 2 :]
    argparse_words.tokens, argparse_words.config = others, file.text
    extension = file.text.rpartition(".")[2]
    if not file.why and extension not in ("yaml", "yml"):
        errors.append(WordError(f"Config file must be of a yaml/yml type. {extension} supplied", file))
        return
    settings = _settings_of_file(file, command)
    if isinstance(settings, str):
        argparse_words.open = settings
        return
    inserted = [replace(flag, text=text) for text in _config_words(settings, parser)]
    has_positional = parser.entry == "serve" and bool(others) and not others[0].text.startswith("-")
    names_model = has_positional or any(token.text == "--model" for token in inserted)
    if parser.entry == "serve" and not names_model:
        message = "No model specified! Please specify model either as a positional argument or in a config file."
        errors.append(WordError(message, flag))
    end = 1 if has_positional else 0  # the model stays in front
    argparse_words.tokens = [*others[:end], *inserted, *others[end:]]


def _settings_of_file(file: Token, command: Command) -> Mapping[Any, Any] | str:
    """The settings in the file that `--config` names, or why they are unknown, as a sentence."""
    if file.why:
        return f"the config file is unknown: {file.why}"
    text = command.config.get(posixpath.normpath(file.text))
    if text is None:
        return f"the content of the config file {file.text} is unknown"
    settings = _settings(text)
    return f"the config file {file.text} {settings}" if isinstance(settings, str) else settings


def _settings(text: str) -> Mapping[Any, Any] | str:
    """The settings in a file with this text, or why they are unknown, as the end of a sentence. podfit reports no
    problem with a file that it can't read."""
    import yaml  # here, because few commands use a config file

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            return "uses YAML aliases"  # a few bytes of aliases can expand to a very long text
        settings = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError):
        return "is not valid YAML"
    return settings if isinstance(settings, dict) else "is not a YAML mapping"


def _config_words(settings: Mapping[Any, Any], parser: Parser) -> list[str]:
    """The settings of a `--config` file as words of a command line. True is a flag without a value; an empty list is
    left out, and so is False before `_NEGATED_CONFIG`."""
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
    """The token with dashes in the flag's name: `--some_flag.a_key=a_value` → `--some-flag.a_key=a_value`."""
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
        is_bare = text == "-O" and at + 1 < len(tokens) and tokens[at + 1].text in ("0", "1", "2", "3")
        is_joined = text.startswith("-O") and len(text) > 2  # `-O3`, `-O=3`, `-O.level=3`
        level = text[2:].removeprefix("=")
        if release >= _OPTIMIZATION_LEVEL and (is_bare or is_joined):
            out.append(replace(token, text="--optimization-level"))
            if is_joined:
                out.append(replace(token, text=level))
        elif is_bare:
            out.append(replace(token, text=f"-O.{key}"))
        elif is_joined and text[2] != ".":
            out.append(replace(token, text=f"-O.{key}={level}"))
        else:
            out.append(token)
    return out


@dataclass
class _Merged:
    """The words `--config.key value` of one flag, merged into one value."""

    first: Token
    """The first of the flags."""
    unknown: str | None = None
    """Why the value is unknown."""
    doubtful: str | None = None
    """Why vLLM probably gets another value."""
    value: dict[str, Any] = field(default_factory=dict)


def _merge_dotted_flags(argparse_words: ArgparseWords, release: Release) -> None:
    """Merges `--config.key value` into one `--config '{"key": value}'` at the end, per flag."""
    prefix = "-" if release >= _DOTTED_SHORT else "--"
    if not any(token.text[:1] == "-" and "." in token.text.partition("=")[0] for token in argparse_words.tokens):
        return
    kept: list[Token] = []
    merged_by_flag: dict[str, _Merged] = {}
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
                argparse_words.errors.append(WordError(f"argument {name}: expected one argument", token))
                continue
            value, text = following, following.text
        flag = name.removesuffix("+").partition(".")[0]
        merged = merged_by_flag.setdefault(flag, _Merged(token, token.unknown, token.doubtful))
        _merge_dotted_value(merged, name, text, value, release)
    for flag, merged in merged_by_flag.items():
        text = json.dumps(merged.value)
        kept.append(replace(merged.first, text=flag, unknown=None, doubtful=None))
        kept.append(replace(merged.first, text=text, unknown=merged.unknown, doubtful=merged.doubtful))
    argparse_words.tokens = kept


def _merge_dotted_value(merged: _Merged, name: str, text: str, value: Token, release: Release) -> None:
    """Merge one value. `name`: `--config.key`, or `--config.key+` for a list. `text`: the value's, which is in the word
    `value`."""
    _, *keys = name.removesuffix("+").split(".")
    try:
        nested: Any = text.split(",") if name.endswith("+") else _dotted_value(text, release)
    except UnreadableValueError as why:
        merged.unknown = str(why)
        return
    if len(keys) > DEEPEST:
        merged.unknown = TOO_DEEP
        return
    for key in reversed(keys):
        nested = {key: nested}
    _merge_nested(merged.value, nested)
    merged.unknown = merged.unknown or value.unknown
    merged.doubtful = merged.doubtful or value.doubtful


def _dotted_value(text: str, release: Release) -> Any:
    """The JSON value of `--config.key value`; in newer releases also a number such as `1k`; else the text. Raises
    UnreadableValueError."""
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
