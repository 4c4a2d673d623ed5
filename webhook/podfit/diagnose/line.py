"""Text → lines as the program wrote them: without colors, time stamps, and what collectors put around them.

A log reaches us through `kubectl logs`, a container runtime's file, a collector's JSON, a terminal. Each wraps a line
in its own way; what vLLM wrote is inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from podfit.base.numbers import from_json, without_long_numbers

Level = Literal["debug", "info", "warning", "error"]
Span = tuple[int, int]
T = TypeVar("T")

MAX_LINE = 16_384
"""Characters of a line that are searched; the rest of a longer line is ignored."""


MAX_SHAPES = 1 << 15
"""Shapes of lines that are remembered. The lines of one log statement differ in their numbers alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The parts of all lines that differ in their digits alone."""

    start: int
    """Where the program's own text begins, in characters."""
    level: Level | None
    source: Span | None
    stream: tuple[Span, ...]
    own: bool


class LogLine(NamedTuple):
    """One line of a log."""

    number: int
    """In the file, from 1."""
    raw: str
    """The line as it is in the file, without colors."""
    text: str
    """The text of the program, without the prefix of process, level, time and place."""
    level: Level | None
    """None: written without a logger, as tracebacks of a dying process are."""
    source: str
    """The process: "EngineCore_DP0 pid=123"."""
    stream: str
    """The container, if what a collector put before the line names it: "pod/vllm-0/vllm"."""
    own: bool
    """Written by the program's own logger."""
    shape: Shape
    """The parts that it shares with all lines whose texts differ only in their digits."""


def per_shape(function: Callable[[LogLine], T]) -> Callable[[LogLine], T]:
    """The function with its results remembered per shape. It must give lines that differ in digits alone one result."""
    results: dict[Shape, T] = {}

    def remembered(line: LogLine) -> T:
        """The remembered result of the line's shape."""
        shape = line.shape
        try:
            return results[shape]
        except KeyError:
            result = results[shape] = function(line)
            return result

    return remembered


_COUNTS = re.compile(r"\{\d*(?:,\d*)?\}")


def depends_on_digits(pattern: str) -> bool:
    """True if a regular expression may distinguish one digit from another; `\\d` and `\\w` do not."""
    return re.search(r"\d", _COUNTS.sub("", pattern)) is not None


_COLOUR = re.compile(
    r"(?:\x1b|\\x1b|\\u001b|\\033|␛|\^\[)\[[0-9;]*[A-Za-z]|\[(?:0|1|\d{2}(?:;\d{1,3})*|0;\d{2})m(?!\])"
)
_WRAPPED = re.compile(
    r"""(?:
      \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\s?[+-]\d\d:?\d\d)?\s+   # kubectl logs --timestamps, collectors
    | (?:stdout|stderr)\s+[FP]\s+                                               # a container runtime's file (CRI)
    | \[(?P<pod>pod/[^\]\s]+)\]\s+                                               # kubectl logs --prefix
    | (?P<service>[\w.-]+)\s+\|\s                                                # docker compose
    | (?P<stern>[\w.-]+\s[\w.-]+)\s›\s                                           # stern
    | >\s+                                                                       # a quotation in an issue
    | [A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d\s(?P<unit>[\w.-]+\s[\w./@-]+)\[\d+\]:\s  # syslog, journalctl
    | (?:\d{4}-\d\d-\d\dT\S+\s)?(?P<host>[\w.-]+\s[\w./@-]+)\[\d+\]:\s             # journalctl -o short-iso
    | -\s(?:DEBUG|INFO|WARNING|ERROR)\s-\s\[[\w.-]+\]\s                          # a launcher around the container
    | \[(?:Trace|Debug|Info|Warning|Error)\]\s\([\w -]+\)\s                      # one around the process
    | (?P<labels>\{\w+="[^{}]*"\})\s+                                            # logcli: the stream's labels
    )""",
    re.VERBOSE,
)
_LABEL = re.compile(r'\b(?:pod|pod_name|container|container_name|instance)="([^"]*)"')
_SOURCE = re.compile(
    r"\s?\(([A-Z][A-Za-z0-9_]*(?: (?:rank|pid|ip)=[\w.:]+,?)+|raylet|pid=\d+[^()]{0,40})\)\s?|\s?\[(rank\d+)\]:\s?"
)
_LEVEL = re.compile(
    r"(?:^|[\s\[|(:\"-])(?P<word>TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|"
    r"EXCEPTION)(?=[\s\]|):\",-]|$)|(?:^|\s)level=[\"']?(?P<key>\w+)|"
    r"^\[?(?P<letter>[DIWEF])(?=\d{3,4} \d\d:\d\d:\d\d)"
)
_PLACE = re.compile(r"^\s*\d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]\n]{1,120}:\d+\]|[\w./]+:\d+\]) ?")
"""`04-22 15:14:02 [multiproc_executor.py:857]`, and `07-24 14:07:31 model_runner.py:692]` before 0.8."""
_LEVEL_LIKE = re.compile(r"TRACE|DEBUG|INFO|NOTICE|WARN|ERROR|CRITICAL|FATAL|EXCEPTION|level=")
"""Every level but the letter at the beginning has one of these words: the search for them costs little."""
_LEVEL_WORD = re.compile(r"\s*(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b[: ]*")
_WARNS = re.compile(r"^(?:\S*: )?\w*Warning: |^\s*warnings\.warn\(|: \w*Warning: ")
_LEVELS: dict[str, Level] = {
    "trace": "debug", "debug": "debug", "d": "debug",
    "info": "info", "information": "info", "notice": "info", "i": "info", "default": "info",
    "warn": "warning", "warning": "warning", "w": "warning",
    "error": "error", "err": "error", "critical": "error", "fatal": "error", "exception": "error", "e": "error",
    "f": "error", "emergency": "error", "alert": "error", "panic": "error",
}  # fmt: skip
_MESSAGE_KEYS = ("message", "msg", "log", "line", "textPayload", "text", "event", "body", "stringValue", "MESSAGE")
"""The keys of a message in the records of Python's loggers, Docker, Loki, Google Cloud, OpenTelemetry and journald, the
most specific first. The value may be a record itself."""
_INNER_KEYS = ("jsonPayload", "fields", "record")
"""The keys of a record in the records of Google Cloud, tracing libraries and loguru, where none has a message."""
_MAX_NESTED_RECORDS = 8
"""Records within each other that are read; a choice: collectors nest two or three."""
_LEVEL_KEYS = ("levelname", "level", "severity", "lvl", "log.level", "loglevel")
_LOGGER_KEYS = {"levelname", "logger", "logger_name", "name", "funcName", "module", "filename", "lineno", "processName"}
"""Keys of a record that the program's own logger wrote."""
_CONTAINER_KEYS = ("pod_name", "pod", "k8s.pod.name", "container_name", "k8s.container.name")
_TRACE_KEYS = ("exc_info", "exception", "exc_text", "stack_trace", "traceback", "stack_info", "error")


def read(text: str) -> list[LogLine]:
    """The lines of `text`, without empty ones, each at most MAX_LINE characters. One of JSON is as many lines as its
    message has. `text` may be an answer of Loki."""
    lines: list[LogLine] = []
    plain, inside = _Shapes(), _Shapes()
    for entry in _records_of_loki(text):
        lines += _lines_of_record(len(lines) + 1, json.dumps(entry), entry, inside)
    if lines:
        return lines
    text = without_long_numbers(_without_colors(text.replace("\r\n", "\n").replace("\r", "\n")))
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw:
            continue
        if len(raw) > MAX_LINE:
            raw = raw[:MAX_LINE]
        if "{" in raw and (record := _json_record(raw)) is not None:
            lines += _lines_of_record(number, raw, record, inside)
        else:
            lines.append(plain.line(number, raw, raw))
    return lines


_LOKI = re.compile(r'\s*\{"status":\s*"success",\s*"data":\s*\{"resultType":\s*"streams"')


def _records_of_loki(text: str) -> Iterator[Mapping[str, Any]]:
    """The entries of an answer of Loki's HTTP API (/loki/api/v1/query_range), by stream and time; none of other text.
    It is one line, however long the log is, with the newest entry first."""
    answer = _parse_json_record(text) if _LOKI.match(text) else None
    data = answer.get("data") if answer else None
    results = data.get("result") if isinstance(data, Mapping) else None
    for result in results if isinstance(results, list) else ():
        values = result.get("values") if isinstance(result, Mapping) else None
        entries = [value for value in values or () if isinstance(value, list) and len(value) > 1]
        for entry in sorted(entries, key=lambda entry: str(entry[0])):
            yield {"labels": result.get("stream"), "line": without_long_numbers(str(entry[1])[:MAX_LINE])}


def _json_record(raw: str) -> Mapping[str, Any] | None:
    """The JSON record that a line is, whatever a collector put before it."""
    start, _ = _unwrap(raw)
    return _parse_json_record(raw[start:]) if raw.startswith("{", start) else None


def _lines_of_record(number: int, raw: str, record: Mapping[str, Any], shapes: _Shapes) -> Iterator[LogLine]:
    """The log lines in one JSON record, each with its level and stream if the line itself names none."""
    _, spans = _unwrap(raw)
    level, stream = _record_level(record), _joined(raw, spans) or _record_stream(record)
    logged = not _LOGGER_KEYS.isdisjoint(record)
    for text in _record_texts(record):
        for part in text.replace("\r", "").split("\n"):
            if part.strip():
                line = shapes.line(number, raw, _without_colors(part))
                yield line._replace(level=line.level or level, stream=stream or line.stream, own=line.own or logged)


def _without_colors(text: str) -> str:
    return _COLOUR.sub("", text) if "[" in text else text


def _unwrap(text: str) -> tuple[int, tuple[Span, ...]]:
    """(start, spans): where the text begins after the prefixes that log collectors add, and where they name the Pod or
    the container; no spans if they name none."""
    start = 0
    stream: tuple[Span, ...] = ()
    while match := _WRAPPED.match(text, start):
        start = match.end()
        if not stream and match.lastgroup:
            stream = (
                tuple(label.span(1) for label in _LABEL.finditer(text, *match.span("labels")))
                if match["labels"]
                else (match.span(match.lastgroup),)
            )
    return start, stream


def _joined(text: str, spans: tuple[Span, ...]) -> str:
    return " ".join([text[start:end] for start, end in spans])


_ZEROS = bytes.maketrans(b"123456789", b"000000000")


class _Shapes:
    """The shapes of the lines that were read: what they have in common is looked for once."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, Shape] = {}
        self._sources: dict[str, str] = {}

    def line(self, number: int, raw: str, text: str) -> LogLine:
        """The line of a text in the raw line."""
        key = text.encode("utf-8", "surrogatepass").translate(_ZEROS)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = _shape(text)
        source = ""
        if shape.source:
            source = text[shape.source[0] : shape.source[1]]
            source = self._sources.setdefault(source, source)
        stream = _joined(text, shape.stream) if shape.stream else ""
        return LogLine(number, raw, text[shape.start :], shape.level, source, stream, shape.own, shape)


def _shape(text: str) -> Shape:
    """The parts of a line, by their places in it: prefixes of collectors, the process (`source`), level and place in
    vLLM's source, then the text."""
    start, stream = _unwrap(text)
    source: Span | None = None
    while match := _SOURCE.match(text, start):
        source = source or match.span(1 if match[1] else 2)
        start = match.end()
    level, own = level_of(text[start : start + _HEAD]), False
    word = _LEVEL_WORD.match(text, start)
    if word and (place := _PLACE.match(text[word.end() : word.end() + _HEAD])):
        start, own = word.end() + place.end(), True
    if source is None and "(" in text[start : start + 80] and (match := _SOURCE.search(text, start, start + 80)):
        source = match.span(1 if match[1] else 2)
    return Shape(start, level, source, stream, own)


_HEAD = 400
"""Characters of a line that say its level and place."""


def level_of(text: str) -> Level | None:
    """The level of a line by its first words; None if they name none. Python's `Warning:` counts as one."""
    head = text[:160]
    if "NCCL " in head:
        # NCCL's WARN is the reason why its caller fails: not a warning.
        return "info" if "NCCL INFO" in head else None
    if (_LEVEL_LIKE.search(head) or head[:2].strip("[")[:1] in "DIWEF") and (match := _LEVEL.search(head)):
        level_word = match["word"] or match["key"] or match["letter"]
        # `FATAL` in the middle of a sentence is not a level: one is at the beginning, or after a time.
        if match.start() < 60 or match["key"]:
            return _LEVELS.get(level_word.lower())
    return "warning" if _WARNS.search(text[:300]) else None


def _parse_json_record(text: str) -> Mapping[str, Any] | None:
    """A JSON object on one line; None where it is none."""
    try:
        value = from_json(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _record_stream(record: Mapping[str, Any]) -> str:
    """The Pod and container that a collector's record names; empty if it names none."""
    inner = [record.get(key) for key in ("kubernetes", "labels", "resource", "k8s", "attributes")]
    inner += [entry.get("labels") for entry in inner if isinstance(entry, Mapping)]
    for item in (*inner, record):
        if isinstance(item, Mapping):
            names = [item[key] for key in _CONTAINER_KEYS if isinstance(item.get(key), str)]
            if names:
                return " ".join(names)
    return ""


def _record_level(record: Mapping[str, Any]) -> Level | None:
    """A collector calls a whole stream information: that says nothing of a traceback in it."""
    level = _record_level_field(record)
    return level if level in ("error", "warning") or not _LOGGER_KEYS.isdisjoint(record) else None


def _record_level_field(record: Mapping[str, Any]) -> Level | None:
    """The level in the first of a record's level fields; None without one."""
    for key in _LEVEL_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            return _LEVELS.get(value.lower())
        if isinstance(value, int) and not isinstance(value, bool):  # pino and Python: 30/20 information, 50/40 errors
            return "error" if value >= 40 else "warning" if value == 30 and key == "levelno" else "info"
    return None


def _record_texts(record: Mapping[str, Any], levels: int = _MAX_NESTED_RECORDS) -> Iterator[str]:
    """The message of a JSON record, then its tracebacks; of a record in it, too, `levels` deep."""
    message = _record_message(record)
    if isinstance(message, str):
        yield message
    elif message is not None and levels > 1:
        yield from _record_texts(message, levels - 1)
    for key in _TRACE_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield "".join(value)  # lines with their ends, as traceback.format_exception gives them


def _record_message(record: Mapping[str, Any]) -> str | Mapping[str, Any] | None:
    """The first message of a JSON record that is not empty, or the record that has it; None without one."""
    for key in _MESSAGE_KEYS:
        value = record.get(key)
        if value and isinstance(value, str | dict):
            return value
    inner = next((record[key] for key in _INNER_KEYS if record.get(key)), None)
    return inner if isinstance(inner, dict) else None
