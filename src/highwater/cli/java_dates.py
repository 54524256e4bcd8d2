"""Times in the patterns of Java's SimpleDateFormat, as far as the parts of a date are numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

_PARTS: dict[str, Callable[[datetime], int]] = {
    "y": lambda at: at.year,
    "M": lambda at: at.month,
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
    "S": lambda at: at.microsecond // 1000,
}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")


def java_date(pattern: str, at: datetime) -> str:
    """Raises ValueError for a pattern that is none, or that asks for names (of months, days, zones)."""
    return "".join(_text(token, at) for token in _TOKEN.finditer(pattern))


def _text(token: re.Match[str], at: datetime) -> str:
    whole, letter = token[0], token[2]
    if letter is None:
        if whole == "'":
            raise ValueError("Unterminated quote")
        return "'" if whole == "''" else whole if token[1] is None else token[1].replace("''", "'")
    if letter == "a":
        return "AM" if at.hour < 12 else "PM"
    if letter not in _PARTS or (letter == "M" and len(whole) > 2):
        raise ValueError(f"The part '{whole}' of a date format is not available: use numbers, one of {''.join(_PARTS)}")
    value = _PARTS[letter](at)
    return f"{value % 100:02}" if whole == "yy" else f"{value:0{len(whole)}}"
