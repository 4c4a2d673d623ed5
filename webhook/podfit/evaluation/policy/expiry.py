"""When an exception ends."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,6})?([Zz]|[+-]\d{2}:\d{2})")


def expiry_time(text: str) -> datetime | None:
    """The instant from which it no longer holds: the end of a day (UTC), or an RFC 3339 time; None where it is none."""
    try:
        if _DAY.fullmatch(text):
            return datetime.combine(date.fromisoformat(text) + timedelta(days=1), time(), UTC)
        return datetime.fromisoformat(text.upper()) if _MOMENT.fullmatch(text) else None
    except (ValueError, OverflowError):  # the 30th of February
        return None
