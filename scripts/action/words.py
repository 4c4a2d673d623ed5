"""The words of an input of the Action, one a line: blanks and line ends separate them, and quotes keep blanks.

A backslash is a character like others, as in a path of Windows. Text whose quotes do not match is separated at its
blanks alone.

Usage: words.py VARIABLE
"""

from __future__ import annotations

import os
import shlex
import sys


def words(text: str) -> list[str]:
    """The words of the text."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.escape = ""
    try:
        return list(lexer)
    except ValueError:
        return text.split()


if __name__ == "__main__":
    print("".join(f"{word}\n" for word in words(os.environ[sys.argv[1]]) if "\n" not in word), end="")
