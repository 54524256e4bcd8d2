"""Turning the error codes inside answers into exceptions."""

from __future__ import annotations

from highwater.errors import Code, KafkaError, code_of


def failure(number: int, message: str | None = None) -> KafkaError:
    return KafkaError(code_of(number), message or None)


def check(number: int, message: str | None = None) -> None:
    """Raise what an answer's error code says, if it says anything."""
    if number != Code.NONE:
        raise failure(number, message)
