"""Kubernetes quantities ("8Gi", "500m") and bytes, in both directions.

The grammar is that of `k8s.io/apimachinery/pkg/api/resource` (Quantity): a decimal number with a binary suffix
(Ki … Ei), a decimal one (n, u, m, k … E) or an exponent.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from podfit.base.lazy import regex

KI, MI, GI, TI = 1 << 10, 1 << 20, 1 << 30, 1 << 40
"""Bytes."""
MAX_TEXT_LENGTH = 64
"""Characters of a quantity. A choice: int64 has 19 digits, and longer texts are not worth reading."""

_SUFFIX = {
    "": Decimal(1),
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    "Ki": Decimal(KI), "Mi": Decimal(MI), "Gi": Decimal(GI), "Ti": Decimal(TI), "Pi": Decimal(1 << 50),
    "Ei": Decimal(1 << 60),
}  # fmt: skip
_QUANTITY = regex(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,4})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_MAX = (1 << 63) - 1
"""Kubernetes caps what is larger."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


def parse(value: object) -> int:
    """The quantity as an integer (bytes for memory), rounded up and capped as Kubernetes does; raises QuantityError."""
    text = value if isinstance(value, str) else _as_text(value)
    amount = _parse_exact(text) if len(text) <= MAX_TEXT_LENGTH else None
    if amount is None:
        raise QuantityError(f"{value!r:.60} is not a quantity such as 64Gi, 500M or 2")
    return amount


@lru_cache(1024)
def _parse_exact(text: str) -> int | None:
    """The quantity as an integer, rounded up, within int64 as in Kubernetes; None if the text is not a quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    exact = Decimal(number + (exponent or "")) * _SUFFIX[suffix or ""]
    if abs(exact) > _MAX:
        return _MAX if exact > 0 else -_MAX
    return int(exact.to_integral_value(ROUND_CEILING))


def _as_text(value: object) -> str:
    """A number of YAML as the quantity's text; empty for other types."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(max(-_MAX, min(value, _MAX)))
    return str(value) if isinstance(value, float) else ""


def try_parse(value: object) -> int | None:
    """Like `parse`, or None if the value is absent or not a quantity (a separate rule reports those)."""
    if value is None:
        return None
    text = value if isinstance(value, str) else _as_text(value)
    return _parse_exact(text) if 0 < len(text) <= MAX_TEXT_LENGTH else None


def equal(first: object, other: object) -> bool:
    """True if both are the same amount ("1" and "1000m"); False if one is not a quantity. The API server compares
    amounts, not text."""
    if try_parse(first) is None or try_parse(other) is None:
        return False
    return _as_decimal(first) == _as_decimal(other)  # `try_parse` rounds up


def _as_decimal(value: object) -> Decimal:
    """The exact value of a quantity; 0 if it is not a quantity."""
    match = _QUANTITY.fullmatch(value if isinstance(value, str) else _as_text(value))
    number, exponent, suffix = match.groups() if match else ("0", "", "")
    return Decimal(number + (exponent or "")) * _SUFFIX[suffix or ""]


_UNITS = ((TI, TI, "TiB"), (1000 * MI, GI, "GiB"), (MI, MI, "MiB"), (KI, KI, "KiB"))
"""(first size at which a unit is used, its bytes, its name). A choice: GiB begin at 1000 MiB, since
"1 GiB" is shorter than "1001 MiB"."""


def human(size: float) -> str:
    """Bytes for people, with one decimal unless it is 0: "32.9 GiB", "64 MiB", "-2 KiB"."""
    for first_size, unit_bytes, unit in _UNITS:
        if abs(size) >= first_size:
            number = f"{size / unit_bytes:.1f}"
            return f"{number.removesuffix('.0')} {unit}"
    return f"{size:.0f} B"


def left(size: float) -> str:
    """The rest: "3.8 GiB", or "short by 851 MiB" if it is negative."""
    return human(size) if size >= 0 else f"short by {human(-size)}"


def quantity(size: int) -> str:
    """Bytes as the shortest exact quantity: 68719476736 → "64Gi"."""
    for suffix, width in (("Ti", TI), ("Gi", GI), ("Mi", MI), ("Ki", KI)):
        if size and size % width == 0:
            return f"{size // width}{suffix}"
    return str(size)


def round_up_gi(size: int) -> int:
    """The next whole GiB: what a person would write in a manifest."""
    return -(-size // GI) * GI


def gib(value: object, default: float = 0) -> int:
    """GiB as a vLLM flag has them → bytes; `default` GiB if the value is not a plausible number (such as NaN)."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6:
        return int(value * GI)
    return int(default * GI)
