"""The log of `podfit serve` on standard error: one line per record, and no thread waits for its reader."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from gunicorn.glogging import Logger

from podfit.base.printable import one_line
from podfit.base.secret import FORMS
from podfit.server.lines import Lines


def to(lines: Lines) -> None:
    """Sends everything that is logged in this process from now on, from level INFO, to these lines."""
    logging.basicConfig(level=logging.INFO, handlers=[Handler(lines)])


class Handler(logging.Handler):
    """Passes each record on as a line; a thread that answers reviews must not wait for the reader."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self.setFormatter(OneLine())
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; called by `logging`."""
        try:
            line = self.format(record)
        except Exception as error:  # whose text would go to standard error, by way of logging
            line = f"a log line can't be formatted: {type(error).__name__} at {record.pathname}:{record.lineno}"
        self._lines.put(line.encode(errors="backslashreplace") + b"\n")


class OneLine(logging.Formatter):
    """One line per record.

    It has the type and place of an exception, but its text only for errors of the network and of files. Any other text
    may quote a manifest and with it a secret in `env`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, masked and without control characters: time, level, message, and its exception."""
        message = one_line(FORMS.masked(record.getMessage()))
        line = f"{self.formatTime(record, self.datefmt)} {record.levelname} {message}"
        error = record.exc_info[1] if record.exc_info else None  # exc_info: type, exception, traceback
        return f"{line}: {_short(error)}" if error is not None else line


def _short(error: BaseException) -> str:
    """The type and place of an exception in one line, with its text, masked, only for an OSError (see `OneLine`)."""
    title = type(error).__name__
    if isinstance(error, OSError):
        title = f"{title} {one_line(FORMS.masked(str(error)))}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:  # it was not raised
        return title
    return f"{title} at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}"


class Gunicorn(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's error log, without its own handlers: its records go to the handler of `to`."""

    def setup(self, cfg: Any) -> None:
        """Called by gunicorn at start and on SIGHUP."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
