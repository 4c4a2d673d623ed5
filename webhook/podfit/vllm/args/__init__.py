"""argv + release → EngineArgs: typed, with that release's names and defaults, as vLLM's own argparse reads it.

`flags` is the table of options, `values` converts their types, `tokens` does what vLLM does to the words before
argparse, and `grammar` is argparse. This module turns the reading of one release into the result. If the release is not
known exactly, it combines the readings of several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from podfit.base.near import nearest
from podfit.kube.path import FieldPath
from podfit.vllm.args.flags import Parser, Releases, Table
from podfit.vllm.args.grammar import ParseResult, Problem, parse_tokens
from podfit.vllm.args.tokens import CommandLine, command_line_of, prepare_words
from podfit.vllm.command import Command
from podfit.vllm.release import Release

__all__ = ["ArgumentError", "EngineArgs", "Releases", "UnrecognizedFlag", "parse"]


@dataclass(frozen=True)
class UnrecognizedFlag:
    """A flag that this release's parser does not know: vLLM exits with 2 before it loads anything."""

    flag: str
    """The flag as written, without its value."""
    path: FieldPath
    suggestion: str | None
    """The nearest flag that this release knows ("did you mean"), None if none is similar."""
    first: str | None
    last: str | None
    """The first and last release of the nearest run of releases in the table that know the flag. Runs before this
    release come first. Both are None if no release knows it."""
    removed: str | None = None
    """The first release of the table without the flag, if the flag was removed before this release."""
    index: int = -1
    """The flag's index in the command's words."""
    words: int = 1
    """The number of words: the flag and its values."""


@dataclass(frozen=True)
class ArgumentError:
    """Any other error of vLLM's parser, in its own words if they are known."""

    message: str
    path: FieldPath
    dest: str | None = None
    """The argument that it is about; None if it is about none, or about a word that is not an argument."""
    index: int = -1
    """The index in the command's words; -1 and below: the error is about no single word."""


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """The command line as vLLM's parser would read it. Field names (`dest`) are vLLM's."""

    release: Release | None
    """The release of the image, if known. If it is None, all releases read the command line, and only what all reject
    is an error. If it is not in the table, both of its neighbors read it, and only what both reject is an error."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """dest → typed value, of the options on the command line (and in `--config`)."""
    places: Mapping[str, FieldPath] = field(default_factory=dict)
    """dest → the field its value came from."""
    unresolved: Mapping[str, str] = field(default_factory=dict)
    """dest → why its value can't be known (a command substitution, an unset variable)."""
    doubtful: Mapping[str, str] = field(default_factory=dict)
    """dest → why vLLM probably gets another value than `given` has: there is a placeholder in it."""
    unknown: tuple[UnrecognizedFlag, ...] = ()
    unrecognized: tuple[UnrecognizedFlag, ...] = ()
    """Flags that no release of the table knows and that are still not an error. Either the release is outside the
    table, or the program may have flags of its own and this one is probably a misspelled flag of vLLM."""
    errors: tuple[ArgumentError, ...] = ()
    written: Mapping[str, Any] = field(default_factory=dict)
    """Name as written, with underscores → text as written (True: no value), if `given` does not have the same: unknown
    flags, rejected or unknown values, abbreviations, `--config`, LoRA modules. Only for messages: vLLM ignores these
    or reads them differently."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """dest → that release's default (of the newest release of the table if the release is unknown)."""
    conflicts: tuple[ArgumentError, ...] = ()
    """The arguments that vLLM rejects right after parsing, before it loads anything (`validate_parsed_serve_args`), if
    it is not already in `errors`."""
    open: str | None = None
    """Why there may be arguments beyond these (`$EXTRA_ARGS`, a config file that podfit can't read), else None. If it
    is set, an argument that is not in `given` may still be set."""
    served: str | None = None
    """The value of `--model`, if the model is `unserved`."""
    unserved: bool = False
    """True if the model is the positional argument of the api_server module, which parses it but serves `--model`. Only
    `vllm serve` copies `model_tag` to `model` (vLLM 0.10.2 … 0.33 entrypoints/cli/serve.py)."""
    parser_known: bool = True
    """The release's parser is in the table, or those of the releases on both sides of it; True if the release is
    unknown."""
    read_as: Release | None = None
    """The release of the table whose parser accepts the command line and gave this reading; None if none accepts it."""
    early: frozenset[str] = frozenset()
    """Given options that a later argument may replace: after them there is a word that may expand to more arguments."""
    releases: tuple[Release, ...] = ()
    """If the release is not known: the releases of the table whose parser accepts every flag on the command line. vLLM
    of any other release would fail on its arguments. Empty if nothing can be concluded."""

    def get(self, dest: str) -> Any:
        """The given value, else the release's default; None if it is `unresolved`, or if the release has no default."""
        return None if dest in self.unresolved else self.given.get(dest, self.defaults.get(dest))

    def is_sure(self, dest: str) -> bool:
        """True if vLLM certainly sees the argument as `given` has it, set or not set."""
        return dest not in self.unresolved and dest not in self.doubtful

    def is_final(self, dest: str) -> bool:
        """True if vLLM certainly gets the given value: it is known, and no later argument may replace it.

        A `--config` file that can't be read replaces nothing: its settings come before the arguments of the command
        line (`FlexibleArgumentParser._pull_args_from_config`, vLLM 0.6 … 0.33)."""
        return dest in self.given and self.is_sure(dest) and dest not in self.early

    def with_arguments(self, given: Mapping[str, Any], unresolved: Mapping[str, str]) -> EngineArgs:
        """Return a copy of the command line with other arguments. (`dataclasses.replace` takes three times as long, and
        a search for changes calls this some ten times.)"""
        release, _, places, _, *others = _ALL(self)  # in the order of the fields
        return EngineArgs(release, given, places, unresolved, *others)

    @property
    def quantization(self) -> str | None:
        """`--quantization` as vLLM looks it up: in lower case (vLLM 0.4.2 config.py, 0.33 config/model.py). None if it
        is not set, empty or unknown."""
        given = self.given.get("quantization")
        return given.lower() or None if isinstance(given, str) else None

    @property
    def model(self) -> str | None:
        """The model that the command names; None if it is unknown, or if vLLM would serve its own default."""
        model = self.served if self.unserved else self.given.get("model")
        return str(model) if model and "model" not in self.unresolved else None


_ALL = attrgetter(*EngineArgs.__slots__)
"""Returns all fields of an object, in their order."""
_MODULE = "vllm.entrypoints.openai.api_server"
_READINGS = 1 << 13
"""Words of all readings of one command. If the release is unknown, a long command is read with fewer releases."""
_MOST_SUGGESTIONS = 20
"""Unknown flags of one command that get a suggestion. A choice: each is compared with all flags of a release."""
_SIMILAR = 0.75
"""Similarity by difflib from which on a flag is suggested for an unknown one. A choice: a suggestion is only a hint."""
_A_SLIP = 0.92
"""Similarity by difflib from which on an unknown flag is probably a misspelled flag of vLLM, not the program's own."""
_LONGEST_FLAG = 100
"""No suggestion is made for a longer flag."""


def parse(
    command: Command,
    release: Release | None,
    releases: Releases | None = None,
    *,
    suggests: Callable[[], bool] = lambda: True,
) -> EngineArgs:
    """Reads `command.words` as the release's parser does; never raises: what vLLM would reject is in `errors`.

    `release`: None if it is unknown. `releases`: the packaged tables by default. `suggests`: whether one more unknown
    flag is compared with the known ones, which takes a millisecond.
    """
    entry = "module" if command.entry == "module" else "serve"
    table = (releases or Releases()).table
    newest = table.releases[-1]
    lower, upper = (newest, newest) if release is None else table.neighbours(release)
    defaults = table.parser(lower or upper or newest, entry).defaults
    if command.guessed is not None or command.entry == "worker":
        # The program may load the model of its image, and a worker serves the model that its leader sends.
        defaults = {**defaults, "model": None}
    if command.entry == "worker":
        return EngineArgs(release, defaults=defaults)
    if release is None:  # all releases, or fewer for a long command
        candidates = table.releases[:: -max(1, len(command.words) * len(table.releases) // _READINGS)]
    else:
        candidates = tuple(dict.fromkeys(near for near in (lower, upper) if near is not None))
    parsers = (table.parser(candidate, entry) for candidate in candidates)  # lazily: usually the first one is enough
    line = command_line_of(command, "\n".join([word.text for word in command.words]))
    used, reading, problems = _read_by_candidates(command, line, parsers)
    conflicts = _conflicts(reading, command, used.release)
    unrecognized_flags = _probable_slips(reading, command, used, suggests)
    unknown = list(_unknown_flags(problems, used, suggests)) if problems else []
    if lower is None or upper is None:  # a release outside the table may have flags that none of the table has
        unrecognized_flags = [flag for flag in unknown if flag.first is None]
        unknown = [flag for flag in unknown if flag.removed]
    if lower is None:  # an older release, which may read the other words in another way, too
        unknown, problems, conflicts = [], (), []
    messages = {problem.message for problem in problems}
    return EngineArgs(
        release=release,
        given=reading.given,
        places=reading.places,
        unresolved=reading.unresolved,
        doubtful=reading.doubtful,
        unknown=tuple(unknown),
        unrecognized=tuple(unrecognized_flags),
        errors=tuple([ArgumentError(p.message, p.path, p.dest, p.index) for p in problems if not p.flag]),
        written=reading.written,
        defaults=defaults,
        conflicts=tuple([conflict for conflict in conflicts if conflict.message not in messages]),
        open=reading.open,
        # Those that are not given once more later.
        early=frozenset([dest for dest, place in reading.early.items() if reading.places.get(dest) == place]),
        served=reading.optional,
        unserved=command.program == _MODULE and reading.tagged,
        read_as=None if reading.problems else used.release,
        parser_known=release is None or (lower is not None and upper is not None),
        releases=table.releases_accepting(_flags(command)) if release is None and not command.own_flags else (),
    )


def _flags(command: Command) -> Iterable[str]:
    """The flags among the words, as the parser's table spells them: `--max_num_seqs=8` is `--max-num-seqs`, and
    `--compilation-config.mode` is `--compilation-config`."""
    for word in command.words:
        flag = word.text.partition("=")[0]
        if flag.startswith("--") and word.text != "--" and len(flag) < _LONGEST_FLAG:
            yield flag.partition(".")[0].replace("_", "-")


class _Reading(NamedTuple):
    """A command as the parser of one release reads it."""

    parser: Parser
    result: ParseResult
    problems: tuple[Problem, ...] = ()
    """Problems that are errors in every candidate release."""


def _read_by_candidates(command: Command, line: CommandLine, candidates: Iterable[Parser]) -> _Reading:
    """The reading of the first release that accepts the command, preferably without abbreviations.

    If no release accepts it: the reading with the fewest problems, of which only those at words that every release
    rejects are returned.
    """
    tried: list[_Reading] = []
    accepted: list[_Reading] = []
    common: set[int] | None = None  # indices of the words that each release of `tried` rejects
    for parser in candidates:
        result = _read_by_parser(command, line, parser)
        if not result.problems:
            if not result.abbreviated:
                return _Reading(parser, result)
            accepted.append(_Reading(parser, result))
            continue
        tried.append(_Reading(parser, result))
        indices = {problem.index for problem in result.problems}
        common = indices if common is None else common & indices
        if all(_is_of_no_release(problem, parser) for problem in result.problems):
            break  # every other release rejects these words, too
    if accepted:
        # `--device cpu` is an option of old releases rather than an abbreviation of a new one's `--device-ids`.
        return min(accepted, key=lambda reading: reading.result.abbreviated)
    best = min(tried, key=lambda reading: len(reading.result.problems))
    common_problems = [problem for problem in best.result.problems if problem.index in (common or ())]
    return best._replace(problems=tuple(common_problems))


def _is_of_no_release(problem: Problem, parser: Parser) -> bool:
    """True if the problem is a flag that argparse can't match with any flag of any release."""
    flag = problem.flag or ""
    return flag[:2] == "--" and flag.replace("_", "-").partition(".")[0] not in parser.table.beginnings


_WITHOUT_PLACE, _CONFLICT = -1, -2
"""The indices of problems that are about the whole command: a missing argument, and conflicting ones. They differ, so
that two releases have a problem in common only if it is of the same type."""


def _read_by_parser(command: Command, line: CommandLine, of_release: Parser) -> ParseResult:
    """The command as the parser of one release reads it, its `--config` file included."""
    words = prepare_words(command, line, of_release)
    reading = parse_tokens(of_release, words.tokens)
    if words.config is not None:
        reading.written["config"] = words.config
    incomplete = None if command.complete else "the manifest does not show every argument"
    reading.open = reading.open or words.open or incomplete
    if incomplete is not None:
        reading.early = reading.places
    if words.errors:
        reading.problems[:0] = [Problem(token.index, message, token.path) for message, token in words.errors]
    if command.own_flags:
        reading.passed_over = [problem for problem in reading.problems if problem.flag]
        reading.problems = [problem for problem in reading.problems if not problem.flag]
    if reading.open:
        return reading
    positional = of_release.positional
    if positional is not None and positional.nargs is None and not reading.tagged:
        message = f"the following arguments are required: {positional.dest}"
        reading.problems.append(Problem(_WITHOUT_PLACE, message, command.path, "model"))
    if of_release.entry == "serve" and of_release.release >= _CHECKED and not reading.problems:
        reading.problems += [
            Problem(_CONFLICT, conflict.message, conflict.path, conflict.dest)
            for conflict in _conflicts(reading, command, of_release.release)
        ]
    return reading


_CHECKED = Release(0, 11, 1)
"""The first release in which `vllm serve` was observed to exit with the messages of `_conflicts`. For earlier releases
and the api_server module they are only `conflicts`."""


_CONFLICTING = frozenset({
    "enable_auto_tool_choice", "enable_reasoning", "enable_log_outputs", "data_parallel_multi_port_external_lb",
    "reasoning_effort_map",
})  # fmt: skip
"""Options without which `_conflicts` finds nothing."""


def _conflicts(reading: ParseResult, command: Command, release: Release) -> list[ArgumentError]:
    """The errors of `validate_parsed_serve_args` (vLLM 0.33 entrypoints/openai/cli_args.py); empty without any."""
    given = reading.given
    if _CONFLICTING.isdisjoint(given):
        return []
    argument_errors: list[ArgumentError] = []

    def off(dest: str) -> bool:
        """True if the argument is certainly not set."""
        return not given.get(dest) and dest not in reading.unresolved and not reading.open

    def refuse(message: str, dest: str) -> None:
        """Note an error at the argument."""
        argument_errors.append(ArgumentError(f"Error: {message}", reading.places.get(dest, command.path), dest))

    if given.get("enable_auto_tool_choice") and off("tool_call_parser"):
        refuse("--enable-auto-tool-choice requires --tool-call-parser", "enable_auto_tool_choice")
    if given.get("enable_reasoning") and off("reasoning_parser") and release < Release(0, 9):
        refuse("--enable-reasoning requires --reasoning-parser", "enable_reasoning")
    if given.get("enable_log_outputs") and off("enable_log_requests"):
        refuse("--enable-log-outputs requires --enable-log-requests", "enable_log_outputs")
    is_known = "data_parallel_size" in given or off("data_parallel_size")
    if given.get("data_parallel_multi_port_external_lb") and is_known and (given.get("data_parallel_size") or 1) <= 1:
        message = "--data-parallel-multi-port-external-lb requires --data-parallel-size > 1"
        refuse(message, "data_parallel_multi_port_external_lb")
    efforts = given.get("reasoning_effort_map")
    if efforts is not None and not (isinstance(efforts, dict) and all(isinstance(v, str) for v in efforts.values())):
        message = "--reasoning-effort-map must be a JSON object mapping reasoning efforts to strings."
        refuse(message, "reasoning_effort_map")
    return argument_errors


def _unknown_flags(
    problems: Iterable[Problem], parser: Parser, suggests: Callable[[], bool]
) -> Iterable[UnrecognizedFlag]:
    """The flags that the parser does not know, each with the nearest spelling and the releases that know it."""
    flags = [(problem, problem.flag) for problem in problems if problem.flag]
    if not flags:
        return
    spellings = tuple(parser.spellings)
    for number, (problem, flag) in enumerate(flags):
        near = nearest(flag, spellings, cutoff=_SIMILAR) if number < _MOST_SUGGESTIONS and suggests() else ()
        run = parser.table.nearest_releases_with(flag, parser.release)
        yield UnrecognizedFlag(
            flag=flag,
            path=problem.path,
            suggestion=near[0] if near else None,
            first=str(run.first) if run else None,
            last=str(run.last) if run else None,
            removed=_next_in_table(parser.table, run.last) if run and run.last < parser.release else None,
            index=problem.index,
            words=problem.words,
        )


def _probable_slips(
    reading: ParseResult, command: Command, parser: Parser, suggests: Callable[[], bool]
) -> list[UnrecognizedFlag]:
    """Flags of a program that podfit does not know, if they are probably misspelled flags of vLLM; else empty."""
    if not reading.passed_over or command.guessed is None:
        return []
    from difflib import SequenceMatcher  # here, because few commands have such flags

    slips = []
    for flag in _unknown_flags(reading.passed_over, parser, suggests):
        if flag.first is not None or flag.suggestion is None:
            continue  # a release knows it, or it is like no flag of vLLM
        if SequenceMatcher(None, flag.flag, flag.suggestion).ratio() >= _A_SLIP:
            slips.append(flag)
    return slips


def _next_in_table(table: Table, release: Release) -> str:
    """The release of the table that comes next."""
    return str(table.releases[table.releases.index(release) + 1])
