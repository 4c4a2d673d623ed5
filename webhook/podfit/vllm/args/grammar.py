"""argparse's grammar over vLLM's options: which word is a flag, which is a value, and what argparse rejects.

Python's own argparse is not usable here. It stops at the first error, forgets which word a value came from, and accepts
no words with unknown text. It also reads some lines differently from one Python release to the next.

This is its algorithm (CPython 3.11 Lib/argparse.py, `_parse_optional`, `_get_option_tuples`, `_parse_known_args`,
`_match_argument`) with `allow_abbrev=True`, for the kinds of options that vLLM has. `tests/vllm/args/test_args.py`
compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath
from podfit.vllm.args.flags import Flag, Option, Parser, is_plain_spelling, name_of
from podfit.vllm.args.tokens import Token
from podfit.vllm.args.values import InvalidValueError, UnreadableValueError, convert, from_json


@dataclass(frozen=True, slots=True)
class Problem:
    """Why this release rejects the command line."""

    index: int
    """The index of the word that it is about; -1 and below: the command as a whole."""
    message: str
    path: FieldPath
    dest: str | None = None
    flag: str | None = None
    """The flag, if the release does not know it; then the message is argparse's."""
    words: int = 1
    """How many words it is about: a flag and its values."""


@dataclass
class ParseResult:
    """The command line as one release reads it."""

    given: dict[str, Any] = field(default_factory=dict)
    """dest → converted value of the options on the command line."""
    places: dict[str, FieldPath] = field(default_factory=dict)
    """dest → the field that its last value came from, also if the value is unknown or rejected."""
    unresolved: dict[str, str] = field(default_factory=dict)
    """dest → why its value is unknown; then it is not in `given`."""
    doubtful: dict[str, str] = field(default_factory=dict)
    """dest → why its value in `given` is probably not the value that vLLM gets: it contains a placeholder."""
    problems: list[Problem] = field(default_factory=list)
    passed_over: list[Problem] = field(default_factory=list)
    """Unknown flags that are ignored because the program may have flags of its own."""
    written: dict[str, Any] = field(default_factory=dict)
    """Name as written, with underscores → text as written (True: no value), if `given` does not have the same. These
    are unknown flags, rejected or unknown values, abbreviations, LoRA modules, and levels in place of a compilation
    config."""
    abbreviated: int = 0
    """Number of flags that are abbreviated."""
    open: str | None = None
    """Why there may be more arguments than the words show."""
    early: Mapping[str, FieldPath] = field(default_factory=dict)
    """`places` before the last word that may expand to more arguments: these options may be given again by it."""
    tagged: bool = False
    """The model is named by the positional argument."""
    optional: str | None = None
    """The value of `--model`, if the positional argument names a model too."""


_NEGATIVE_NUMBER = regex(r"-\d+|-\d*\.\d+")
"""argparse's own pattern (`_negative_number_matcher`): such a word is a value, since no flag of vLLM looks like it."""
_MODULES = ("LoRAParserAction", "PromptAdapterParserAction")
"""Actions that make objects of `name=path`."""
_CLEAN_FLAG = regex(r"--?[A-Za-z][\w.+-]*")
"""A flag whose name has no placeholder in it."""


def _flag(token: Token, parser: Parser) -> Flag | None:
    """The flag that `token` is; None if it is an argument. As argparse, it tries the whole word, the part before `=`,
    and abbreviations, in this order. An unknown word that begins with `-` is a flag unless it is a number or has a
    blank."""
    text, known = token.text, parser.spellings
    if token.open or text[:1] != "-" or text == "-":
        return None
    if (cached := parser.flags.get(text)) is not None:  # the usual case
        return cached
    if text in known:
        new_flag = parser.flags[text] = Flag(text, *known[text])
        return new_flag
    name, equals, value = text.partition("=")
    if equals and name in known:
        return Flag(name, *known[name], explicit=value)
    if text.startswith("--"):
        matches = [(flag, value if equals else None) for flag in parser.flags_beginning_with(name)]
    else:  # `-O3` is `-O` with the value 3; one dash may also begin a long flag
        matches = [(text[:2], text[2:])] if text[:2] in known else []
        matches += [(flag, None) for flag in parser.flags_beginning_with(text)]
    if len(matches) > 1:
        return Flag(name, None, candidates=tuple(flag for flag, _ in matches))
    if matches:
        flag, explicit = matches[0]
        return Flag(flag, *known[flag], explicit=explicit)
    if _NEGATIVE_NUMBER.fullmatch(text) or " " in text:
        return None
    return Flag(name, None, explicit=value if equals else None)


def parse_tokens(parser: Parser, tokens: list[Token]) -> ParseResult:
    """Reads all of `tokens`; continues after an error as far as that makes sense."""
    return _Reader(parser, tokens).read()


class _Reader:
    """One pass through a command line."""

    def __init__(self, parser: Parser, tokens: list[Token]) -> None:
        texts = [token.text for token in tokens]
        self.parser = parser
        self.reading = ParseResult()
        self.separator = texts.index("--") if "--" in texts else len(tokens)
        """The index from which on no word is a flag, because a `--` was there."""
        self.tokens = tokens[: self.separator] + tokens[self.separator + 1 :]
        """The words without the first `--`."""
        self.flags = [_flag(token, parser) if token.text[:1] == "-" else None for token in tokens[: self.separator]]
        """The flag that each word is, None for arguments."""
        self.flags += [None] * (len(self.tokens) - self.separator)
        self.positional = parser.positional
        """The positional argument that is still to come; None after it."""

    def read(self) -> ParseResult:
        """Read all words, one argument or option at a time."""
        at = 0
        while at < len(self.tokens):
            flag = self.flags[at]
            at = self._argument(at) if flag is None else self._option(at, flag)
        self._model()
        return self.reading

    def _model(self) -> None:
        """`model_tag` becomes `model` and overrides `--model`, unless its text is unknown and there is a `--model`:
        then it may be no word at all, or another argument."""
        reading = self.reading
        if "model_tag" not in reading.places:
            return
        tag, place = reading.given.pop("model_tag", None), reading.places.pop("model_tag")
        why = reading.unresolved.pop("model_tag", None)
        text = reading.written.pop("model_tag", None)
        reading.tagged = True
        if why is not None and "model" in reading.places:
            return
        reading.places["model"] = place
        reading.optional = reading.given.pop("model", None)
        reading.unresolved.pop("model", None)
        reading.written.pop("model", None)
        if why is not None:
            reading.unresolved["model"] = why
            reading.written["model"] = text
        else:
            reading.given["model"] = tag

    def _refuse(
        self, message: str, token: Token, option: Option | None = None, flag: str | None = None, count: int = 1
    ) -> None:
        """Note that argparse rejects the word `token`. `flag` and `count`: as `flag` and `words` of a `Problem`."""
        dest = option.dest if option else None
        self.reading.problems.append(Problem(token.index, message, token.path, dest, flag, count))

    def _argument(self, at: int) -> int:
        """A word that is not a flag's value: the model, or one argument too many. Returns the next index."""
        token = self.tokens[at]
        self._note_open(token.open)
        if self.positional is not None:
            option, self.positional = self.positional, None
            self._store(option, [token], token)
        elif not self.reading.open and not token.why:
            has_blanks_around = token.text.strip() != token.text
            text = repr(token.text) if has_blanks_around or not token.text else token.text
            self._refuse(f"unrecognized arguments: {text}", token)
            before = self.flags[at - 1] if 0 < at <= self.separator else None
            if before is not None and before.option is not None and token.text.lower() in ("true", "false"):
                self.reading.written[before.option.dest] = token.text  # `--enable-chunked-prefill false`
        return at + 1

    def _values(self, start: int, most: int | None = None) -> list[Token]:
        """The arguments from `start` on, up to the next flag (or `--`), and at most `most`; None: any number."""
        end = start
        limit = self.separator if start <= self.separator else len(self.tokens)
        while end < limit and self.flags[end] is None and (most is None or end - start < most):
            end += 1
        return self.tokens[start:end]

    def _option(self, at: int, flag: Flag) -> int:
        """A flag, with its values. Returns the index after them."""
        token, option = self.tokens[at], flag.option
        if option is None:
            return self._ambiguous(at, flag) if flag.candidates else self._skip_unknown(at, flag)
        values: list[Token] = []
        if flag.explicit is not None:
            self._explicit(option, flag.explicit, token)
        elif option.nargs == 0:
            self._store_switch(option, flag.on, token)
        else:
            values = self._values(at + 1, None if option.nargs == "+" else 1)
            if values or option.nargs == "?":
                self._store(option, values, token)
            elif not token.unknown:
                count = "at least one argument" if option.nargs == "+" else "one argument"
                self._refuse(f"argument {option.name}: expected {count}", token, option)
        if token.text not in self.parser.plain:
            self._note_other_spelling(token, flag, option)
        return at + 1 + len(values)

    def _ambiguous(self, at: int, flag: Flag) -> int:
        """An abbreviation of several flags; returns the index after its likely values."""
        matches = ", ".join(flag.candidates)
        self._refuse(f"ambiguous option: {flag.spelling} could match {matches}", self.tokens[at])
        return at + 1 + len(self._values(at + 1, 1))

    def _explicit(self, option: Option, value: str, token: Token) -> None:
        """Read an option with its value in the same word: `--flag=value`."""
        if option.nargs != 0:
            self._store(option, [Token(value, token.path, token.index, token.unknown, token.doubtful)], token)
            return
        self.reading.written[option.dest] = value
        if not token.unknown:
            self._refuse(f"argument {option.name}: ignored explicit argument {value!r}", token, option)

    def _note_other_spelling(self, token: Token, flag: Flag, option: Option) -> None:
        """Note a spelling that differs from the option's name: an abbreviation, or 0.33's `--disable-x` for
        `--enable-x`."""
        spelling = token.text.partition("=")[0]
        self.reading.abbreviated += spelling != flag.spelling
        if not is_plain_spelling(spelling, self.parser.dests):
            value = self.reading.given.get(option.dest)
            self.reading.written[name_of(spelling)] = True if option.nargs == 0 else value

    def _skip_unknown(self, at: int, flag: Flag) -> int:
        """Skip an unknown flag and its likely values, so that these are not reported as unexpected arguments.

        The values are those of the release nearest to this one that knows the flag, else one. Returns the index after
        them.
        """
        token = self.tokens[at]
        run = self.parser.table.nearest_releases_with(flag.spelling, self.parser.release)
        nargs = run.option.nargs if run is not None else None
        has_values = nargs != 0 and flag.explicit is None
        values = self._values(at + 1, None if nargs == "+" else 1) if has_values else []
        if token.why and not _CLEAN_FLAG.fullmatch(flag.spelling):
            self._note_open(token.why)
        else:
            words = 1 + len(values) if run is not None else 1  # the number of values of an unknown flag is unknown
            self._refuse(f"unrecognized arguments: {token.text}", token, flag=flag.spelling, count=words)
        if flag.explicit is not None:
            self._note_written(name_of(flag.spelling), [flag.explicit])
            return at + 1
        self._note_written(name_of(flag.spelling), [value.text for value in values])
        return at + 1 + len(values)

    def _note_open(self, why: str | None) -> None:
        """Note that a word may expand to any number of arguments, which replace those before it; None: it does not."""
        if why is not None:
            self.reading.open = self.reading.open or why
            self.reading.early = dict(self.reading.places)

    def _note_written(self, name: str, texts: list[str]) -> None:
        """Note the values of a flag as they are written, before any conversion; True for a flag without values."""
        if len(texts) > 1:
            self.reading.written[name] = texts
        else:
            self.reading.written[name] = texts[0] if texts else True

    def _note_unresolved(self, dest: str, texts: list[str], why: str) -> None:
        """Note an option with an unknown value, and its words."""
        self.reading.unresolved[dest] = why
        self._note_written(dest, texts)

    def _store_switch(self, option: Option, on: bool, token: Token) -> None:
        """Set an option that takes no value."""
        if option.action != "help":
            self.reading.given[option.dest] = on
            self.reading.written.pop(option.dest, None)
            self.reading.places[option.dest] = token.path
            self.reading.unresolved.pop(option.dest, None)
            self.reading.doubtful.pop(option.dest, None)

    def _replaced_value(self, dest: str) -> Any:
        """Remove and return an earlier value of the same option, which the next one replaces."""
        self.reading.unresolved.pop(dest, None)
        self.reading.doubtful.pop(dest, None)
        return self.reading.given.pop(dest, None)

    def _store(self, option: Option, tokens: list[Token], flag: Token) -> None:
        """Convert and set an option's value, or note why it is unknown or rejected. `tokens`: its words, without the
        flag; empty for `nargs="?"`. `flag`: the word that a problem is about."""
        reading, dest = self.reading, option.dest
        before = self._replaced_value(dest) if dest in reading.places else None
        texts = [token.text for token in tokens]
        why = next((token.unknown for token in tokens if token.unknown), None)
        doubt = next((token.doubtful for token in tokens if token.doubtful), None)
        reading.places[dest] = tokens[0].path if tokens else flag.path
        if dest in ("model", "model_tag"):
            why = why or tokens[0].doubtful  # no model has the name ${MODEL}, whatever vLLM gets instead
        if why:
            self._note_unresolved(dest, texts, why)
            # The last of several words may expand to more than a value; a key from a Secret is always one word.
            if option.nargs in ("+", "?") and dest != "api_key":
                self._note_open(tokens[-1].open)
            return
        try:
            value = self._value(option, texts, before)
        except UnreadableValueError as error:
            self._note_unresolved(dest, texts, str(error))
            return
        except InvalidValueError as error:
            if doubt:
                self._note_unresolved(dest, texts, doubt)
            else:
                self._note_written(dest, texts)
                self._refuse(str(error) if error.complete else f"argument {option.name}: {error}", flag, option)
            return
        reading.given[dest] = value
        if doubt:
            reading.doubtful[dest] = doubt
        is_level = isinstance(value, dict) and bool(texts) and texts[0].isdecimal()  # `level_or_config`
        if option.action in _MODULES or is_level:
            self._note_written(dest, texts)
        elif reading.written:
            reading.written.pop(dest, None)

    def _value(self, option: Option, texts: list[str], before: Any) -> Any:
        """The converted value of an option; raises InvalidValueError if its type rejects a text. `before`: the value of
        the same option earlier on the command line, to which some options append; None if there is none."""
        if option.action is None and option.nargs is None and len(texts) == 1:  # the usual case
            return convert(option, texts[0], self.parser.release)
        if option.action == "StoreBoolean":
            return _true_or_false(texts[0] if texts else "True")
        if not texts:
            return option.const
        values = [convert(option, text, self.parser.release) for text in texts]
        if option.action in _MODULES:
            return [_module(str(value), option) for value in values if value]
        if option.action == "_AppendAction":
            return [*(before or option.default or ()), *values]
        return values if option.nargs == "+" else values[0]


def _true_or_false(text: str) -> bool:
    """The value of an option that takes `true` or `false` (vLLM 0.8.0 utils.py StoreBoolean)."""
    if text.lower() not in ("true", "false"):
        raise InvalidValueError(f"Invalid boolean value: {text}. Expected 'true' or 'false'.")
    return text.lower() == "true"


def _module(text: str, option: Option) -> dict[str, Any]:
    """The name and path of `name=path` or of a JSON object, which may have more keys (vLLM 0.33
    entrypoints/openai/cli_args.py LoRAParserAction)."""
    if "=" in text and "," not in text:
        parts = text.split("=")
        if len(parts) != 2:
            raise InvalidValueError("too many values to unpack (expected 2)")
        return {"name": parts[0], "path": parts[1]}
    if option.action == "PromptAdapterParserAction":
        raise InvalidValueError("not enough values to unpack (expected 2, got 1)")
    try:
        module = from_json(text)
    except ValueError:
        raise InvalidValueError(f"Invalid JSON format for {option.name}: {text}", complete=True) from None
    if not isinstance(module, dict) or not {"name", "path"} <= module.keys():
        raise InvalidValueError(f"Invalid fields for {option.name}: {text}", complete=True)
    return module
