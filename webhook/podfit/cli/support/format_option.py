"""`--format FORMAT[=FILE]`, several times: the reports of one run, one to standard output and others to files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from podfit.base.near import nearest
from podfit.cli.support import edge, terminal


@dataclass(frozen=True)
class Output:
    """One report: its format and its file (None: standard output)."""

    format: str
    file: Path | None

    def write(self, content: str | Iterable[str]) -> None:
        """Writes it, whole or piece by piece; raises UnusableError (exit 3) if the file can't be written."""
        if self.file is None:
            pieces = [content] if isinstance(content, str) else content
            sys.stdout.writelines(pieces if self.format == "github" else map(terminal.without_commands, pieces))
        else:
            edge.write_text(self.file, content)


@dataclass(frozen=True)
class FormatOption:
    """The formats that a command can write; an argument's type."""

    names: Sequence[str]
    """The first is the default."""

    def __call__(self, value: str) -> Output:
        """The value read; raises argparse's error."""
        name, given, file = value.partition("=")
        if name not in self.names:
            near = next(iter(nearest(name, self.names)), None)
            hint = f"Did you mean {near}?" if near else f"Expected one of {', '.join(self.names)}"
            raise argparse.ArgumentTypeError(f"{name!r} is not a valid format. {hint}")
        if given and not file:
            raise argparse.ArgumentTypeError(f"{value!r} names no file")
        return Output(name, Path(file) if file and file != "-" else None)

    def add_argument(self, parser: argparse.ArgumentParser) -> None:
        """Register `--format`."""
        parser.add_argument(
            "--format",
            action="append",
            type=self,
            metavar="FORMAT[=FILE]",
            help=f"{', '.join(self.names)} (default: {self.names[0]}), several at once: one to standard output, others "
            "to files",
        )

    def chosen(self, args: argparse.Namespace, example: str) -> Sequence[Output]:
        """The outputs to write. Raises UnusableError if two need standard output, with an example in the format
        `example`."""
        outputs: Sequence[Output] = args.format or (Output(self.names[0], None),)
        if sum(output.file is None for output in outputs) > 1:
            raise edge.UnusableError(
                f"--format: only one can go to standard output; give the others a file, as in {example}=FILE"
            )
        return outputs
