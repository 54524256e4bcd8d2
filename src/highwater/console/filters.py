"""Which records a viewer wants to see: plain texts to look for, and a place in a JSON value. A filter holds no code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from highwater.kernel import Record

MOST_LETTERS: Final = 200
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,6})\]")
_PATH: Final = re.compile(r"\$?((?:\.?[^.\[\]=<>!]+|\[\d{1,6}\])*)\s*(=|!=|>=|<=|>|<)\s*(.*)", re.DOTALL)

Step = str | int


class BadFilter(ValueError):
    """The reason is for the viewer."""


@dataclass(frozen=True, slots=True)
class PathFilter:
    """`customer.id = 7`: the value at a path, compared with a literal."""

    steps: tuple[Step, ...]
    comparison: str
    literal: str

    @staticmethod
    def of(text: str) -> PathFilter:
        found = _PATH.fullmatch(text.strip())
        if found is None or not found[1].strip():
            raise BadFilter(f"a JSON filter has the form customer.id = 7 or items[0].name = book: {text}")
        steps = tuple(
            int(index) if index else name.strip() for name, index in _STEP.findall(found[1].strip()) if index or name
        )
        return PathFilter(steps, found[2], found[3].strip().strip('"'))

    def matches(self, value: bytes | None) -> bool:
        if value is None:
            return False
        try:
            # As they are written: a float would round 9007199254740993.0.
            found: Any = json.loads(value, parse_float=Decimal)
        except (ValueError, RecursionError):
            return False
        for step in self.steps:
            is_index = isinstance(step, int) and isinstance(found, list) and step < len(found)
            if not is_index and not (isinstance(step, str) and isinstance(found, dict) and step in found):
                return False
            found = found[step]
        return self._compares(found)

    def _compares(self, found: object) -> bool:
        left, right = _comparable(found, self.literal)
        match self.comparison:
            case "=":
                return left == right
            case "!=":
                return left != right
            case _ if not isinstance(left, Decimal) or not isinstance(right, Decimal):
                return False
            case ">":
                return left > right
            case "<":
                return left < right
            case ">=":
                return left >= right
        return left <= right


def _comparable(found: object, literal: str) -> tuple[object, object]:
    """Both as numbers if both are numbers, else both as texts."""
    if isinstance(found, int | Decimal) and not isinstance(found, bool):
        try:
            return Decimal(found), Decimal(literal)
        except InvalidOperation:
            return str(found), literal
    if isinstance(found, str):
        return found, literal
    return json.dumps(found, default=str), literal


@dataclass(frozen=True, slots=True)
class Filter:
    key: bytes = b""
    value: bytes = b""
    header: bytes = b""
    path: PathFilter | None = None

    @staticmethod
    def of(query: Mapping[str, str]) -> Filter:
        """Raises BadFilter."""
        for name in ("key", "value", "header", "path"):
            if len(query.get(name, "")) > MOST_LETTERS:
                raise BadFilter(f"a filter may have {MOST_LETTERS} letters")
        path = query.get("path", "").strip()
        return Filter(
            query.get("key", "").encode(),
            query.get("value", "").encode(),
            query.get("header", "").encode(),
            PathFilter.of(path) if path else None,
        )

    @property
    def is_empty(self) -> bool:
        return not self.key and not self.value and not self.header and self.path is None

    def matches(self, record: Record) -> bool:
        if self.key and self.key not in (record.key or b""):
            return False
        if self.value and self.value not in (record.value or b""):
            return False
        if self.header and not any(self.header in _header(name, value) for name, value in record.headers):
            return False
        return self.path is None or self.path.matches(record.value)


def _header(name: str, value: bytes | None) -> bytes:
    """`name=value`, so that a filter may look for either or both."""
    return name.encode(errors="surrogateescape") + b"=" + (value or b"")
