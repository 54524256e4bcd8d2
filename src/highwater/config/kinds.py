"""Parses the text of a setting, checks its value, and prints a value as text.

Reasons for refusal are worded as in Kafka, because clients show them and tests compare them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the key, the value and what is allowed."""


class Refusal(ValueError):
    """Why a value is not allowed, without the name of the setting."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A type of Kafka's ConfigDef."""

    name: str
    code: int
    """The type's number in a DescribeConfigs response."""
    parse: Callable[[str], T_co]
    """Raises Refusal."""


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise Refusal("Expected value to be either true or false")
    return word == "true"


_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
MOST_DIGITS = 64
"""No meaningful number has more digits, and a pattern may check each of them many times."""


def _integer(kind: str, bits: int) -> Callable[[str], int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def parse(text: str) -> int:
        digits = text.strip()
        # Checked before int(): Python refuses to convert very long numerals with its own error.
        if len(digits) > MOST_DIGITS or not _INTEGER.fullmatch(digits) or not low <= (value := int(digits)) <= high:
            raise Refusal(f"Not a number of type {kind}")
        return value

    return parse


def _double(text: str) -> float:
    digits = text.strip()
    if len(digits) > MOST_DIGITS or not _DECIMAL.fullmatch(digits):
        raise Refusal("Not a number of type DOUBLE")
    return float(digits)


def _list(text: str) -> tuple[str, ...]:
    body = text.strip()
    # A repeated word counts once.
    return tuple(dict.fromkeys(part.strip() for part in body.split(","))) if body else ()


BOOLEAN = Kind("BOOLEAN", 1, _boolean)
STRING = Kind("STRING", 2, str.strip)
INT = Kind("INT", 3, _integer("INT", 32))
SHORT = Kind("SHORT", 4, _integer("SHORT", 16))
LONG = Kind("LONG", 5, _integer("LONG", 64))
DOUBLE = Kind("DOUBLE", 6, _double)
LIST = Kind("LIST", 7, _list)
PASSWORD = Kind("PASSWORD", 9, str.strip)

UNKNOWN_KIND = 0
"""The code of an undeclared key."""


class Allowed(Protocol[T_contra]):
    """A bound for values. Its str() is Kafka's notation, by which bounds are compared with Kafka's."""

    def check(self, name: str, value: T_contra, /) -> None:
        """Raises Refusal, or ConfigError if Kafka's message does not quote the value."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    low: float
    high: float | None = None

    def check(self, name: str, value: float | None, /) -> None:
        if value is None:
            return
        if value < self.low:
            raise Refusal(f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise Refusal(f"Value must be no more than {self.high}")

    def __str__(self) -> str:
        return f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"


def at_least(low: int) -> Range:
    return Range(low)


def between(low: float, high: float) -> Range:
    return Range(low, high)


@dataclass(frozen=True, slots=True)
class RangeOr:
    """A range, and one further value outside of it."""

    low: int
    high: int
    other: int

    def check(self, name: str, value: int, /) -> None:
        if value != self.other and not self.low <= value <= self.high:
            raise Refusal(f"Value must be between {self.low} and {self.high} or equal to {self.other}")

    def __str__(self) -> str:
        return f"[{self.low},...,{self.high}] or {self.other}"


@dataclass(frozen=True, slots=True)
class HostAndPort:
    def check(self, name: str, value: str | None, /) -> None:
        if value is None:
            return
        host, colon, port = value.rpartition(":")
        if not host or not colon or not port.isdecimal() or int(port) > 65535:
            raise Refusal("it must be host:port")

    def __str__(self) -> str:
        return "host:port"


@dataclass(frozen=True, slots=True)
class OneOf:
    words: tuple[str, ...]

    def check(self, name: str, value: str, /) -> None:
        if value not in self.words:
            raise Refusal(f"String must be one of: {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


def one_of(*words: str) -> OneOf:
    return OneOf(words)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of the given words only, or of any words if none are given."""

    words: tuple[str, ...] = ()
    may_be_empty: bool = True

    def check(self, name: str, value: tuple[str, ...] | None, /) -> None:
        if value is None:
            return
        if not value and not self.may_be_empty:
            what = str(self) or "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {what}")
        for item in value:
            if not item:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self.words and item not in self.words:
                raise ConfigError(
                    f"Invalid value {item} for configuration {name}: String must be one of: {', '.join(self.words)}"
                )

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


class ReplicasOf:
    """Replicas of one topic as "partition:broker", or "*" for all of them."""

    _ONE = re.compile(r"(?:[0-9]+:[0-9]+)?")

    def check(self, name: str, value: tuple[str, ...], /) -> None:
        if value != ("*",) and not all(self._ONE.fullmatch(each) for each in value):
            raise ConfigError(
                f"Invalid value [{', '.join(value)}] for configuration {name}: {name} must be the literal '*' or a "
                f"list of replicas in the following format: {self}"
            )

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def list_of(*words: str, may_be_empty: bool = True) -> ListOf:
    return ListOf(words, may_be_empty)


def text_of(value: Any) -> str | None:
    """A value as Kafka prints it in DescribeConfigs."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    if isinstance(value, float):
        return _java_double(value)
    return str(value)


def _java_double(value: float) -> str:
    """As Java prints a double: plain decimals from 1e-3 up to 1e7, and mantissa-E-exponent otherwise."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    number = Decimal(repr(value))
    digits = "".join(map(str, number.as_tuple().digits))
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{number.adjusted()}"
