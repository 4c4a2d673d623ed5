"""Read a question of the page: JSON of known fields, each with its own error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.base.secret import FORMS


class QuestionError(ValueError):
    """A field that can't be used; shown next to it."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__("\n".join(map(FORMS.line, message.splitlines())))


def field_text(obj: Mapping[str, Any], field: str) -> str:
    """The text of a field without the blanks around it, "" if it is missing. Raises QuestionError for other types."""
    return raw(obj, field).strip()


def raw(obj: Mapping[str, Any], field: str) -> str:
    """The text of a field as it is."""
    value = obj.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise QuestionError(field, f"{field}: expected a text, got {type(value).__name__}")
    return value
