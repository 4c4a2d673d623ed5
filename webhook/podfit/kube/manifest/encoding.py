"""A file's bytes → text, as kubectl decodes them: UTF-16 with its byte order mark, else UTF-8."""

from __future__ import annotations

import codecs


def codec_of(data: bytes) -> str:
    """The codec of a file that begins with `data`; it takes the mark off, and writes one where there was one.

    kubectl's: cli-runtime pkg/resource/visitor.go, FileVisitor, for files and for standard input. PowerShell's `>`
    writes UTF-16.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"


def decode(data: bytes, errors: str = "strict") -> str:
    """The text without its mark. `errors`: as for bytes.decode; with "strict", raises UnicodeDecodeError."""
    return data.decode(codec_of(data), errors)
