"""Sections of a definition: which keys there may be, and what each may hold."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

Place = tuple[str, ...]
"""The keys that lead to a value."""

_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Mistake(ValueError):
    """Something that a definition cannot mean, and the key at which it is said."""

    def __init__(self, place: Place, reason: str) -> None:
        super().__init__(f"{'.'.join(place)}: {reason}" if place else reason)
        self.place = place
        self.reason = reason


def duration(text: str) -> float:
    """`500ms`, `1s`, `5m` in seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is no duration such as 500ms, 1s or 5m")
    return int(match[1]) * _SECONDS[match[2]]


class Section:
    """One mapping of a definition, with the keys that it may have (any, if none are named)."""

    def __init__(self, data: object, place: Place, *keys: str) -> None:
        if not isinstance(data, Mapping):
            raise Mistake(place, f"expected keys with values, found {_shown(data)}")
        for key in data:
            if not isinstance(key, str):
                raise Mistake(place, f"the key {key!r} is no text")
            if keys and key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(keys)}"
                raise Mistake((*place, key), f"is not a key here; {hint}")
        self.place = place
        self._data = dict(data)

    def __contains__(self, key: str) -> bool:
        return self._data.get(key) is not None

    def take(self, key: str, kind: type | tuple[type, ...], words: str) -> Any:
        """The value, or None where it is missing."""
        value = self._data.get(key)
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is int)):
            raise Mistake((*self.place, key), f"expected {words}, found {_shown(value)}")
        return value

    def text(self, key: str) -> str | None:
        value = self.take(key, str, "a text")
        if value is not None and not value.strip():
            raise Mistake((*self.place, key), "must not be empty")
        return value.strip() if value is not None else None

    def required(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise Mistake((*self.place, key) if key in self._data else self.place, f"{key} is missing")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(key) or default
        if value not in allowed:
            raise Mistake((*self.place, key), f"is {value!r}: it must be one of {', '.join(allowed)}")
        return value

    def number(self, key: str, low: int, high: int) -> int | None:
        value = self.take(key, int, "a whole number")
        if value is not None and not low <= value <= high:
            raise Mistake((*self.place, key), f"is {value}: it must be {low} to {high}")
        return int(value) if value is not None else None

    def seconds(self, key: str, default: float) -> float:
        value = self.text(key)
        if value is None:
            return default
        try:
            return duration(value)
        except ValueError as error:
            raise Mistake((*self.place, key), str(error)) from None

    def texts(self, key: str) -> list[str]:
        value = self.take(key, (str, list), "a text or a list of texts")
        found = [value] if isinstance(value, str) else value or []
        for each in found:
            if not isinstance(each, str) or not each.strip():
                raise Mistake((*self.place, key), f"expected a text or a list of texts, found {_shown(each)} in it")
        return [each.strip() for each in found]

    def section(self, key: str, *keys: str) -> Section:
        value = self._data.get(key)
        return Section({} if value is None else value, (*self.place, key), *keys)

    def settings(self, key: str) -> dict[str, str]:
        """A mapping whose values are texts, numbers or flags, all as text."""
        inner = self.section(key)
        for name, value in inner._data.items():
            if not isinstance(value, str | int | float | bool):
                raise Mistake((*inner.place, name), f"expected a text, a number or a flag, found {_shown(value)}")
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in inner._data.items()
        }

    def add_options(self, options: dict[str, str]) -> None:
        """Adds the rest of a section to what its keys say: options under their own names."""
        for name, value in self.settings("options").items():
            if name.lower() in {known.lower() for known in options}:
                raise Mistake((*self.place, "options", name), f"is already set by a key of {self.place[0]}")
            options[name] = value


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    kinds = {dict: "keys with values", list: "a list", bool: f"the flag {str(value).lower()}"}
    return kinds.get(type(value), f"{value!r}")
