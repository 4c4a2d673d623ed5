"""Files that the programs of a script may write, so that their texts become unknown."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from podfit.vllm.command.word import Value, known, literal, text_of

if TYPE_CHECKING:
    from podfit.vllm.command.script import Shell

_READERS = frozenset({"cat", "chmod", "chown", "echo", "egrep", "grep", "head", "ls", "stat", "tail", "vllm", "wc"})
"""Programs that do not change the files in their words."""
_COPIERS = frozenset({"cp", "install", "ln", "rsync"})
"""Programs that write to their last word, a file or a folder."""
_WRITERS = frozenset({"dd", "mv", "perl", "sed", "sort", "tee", "truncate"})
"""Programs that write to the files in their words, even if a word is unknown."""
_PATH = re.compile(r"[^\s'\"`:;,=()|&<>{}\[\]#$]+")
"""A possible path in a program's words, or in its input."""


def by_program(shell: Shell, argv: Sequence[Value]) -> None:
    """Make the files unknown that a program's words or its input name."""
    files, name = shell.state.files, posixpath.basename(text_of(argv[0]))
    if not files or name in _READERS:
        return
    *words, last = argv
    if name in _COPIERS:
        shell.state.overwrite(last)
        sources = [text for word in words[1:] if files.get(posixpath.normpath(text := text_of(word))) is None]
        texts = [posixpath.join(text_of(last), posixpath.basename(text)) for text in sources]
    else:
        texts = [text_of(word) for word in (*argv[1:], shell.stdin or ())]
        if name in _WRITERS and known(last) is None:
            shell.state.overwrite(last)
    names = set(map(posixpath.basename, files))
    shell.spend(len(files) // 4 + sum(map(len, texts)) // 64)
    for path in {path for text in texts for path in _PATH.findall(text) if posixpath.basename(path) in names}:
        shell.spend(len(files) // 4)
        shell.state.overwrite(literal(path))
