"""Turns the error codes in responses into exceptions."""

from __future__ import annotations

from highwater.errors import Code, KafkaError, code_of


def failure(number: int, message: str | None = None) -> KafkaError:
    return KafkaError(code_of(number), message or None)


def check(number: int, message: str | None = None) -> None:
    """Raises the error of a response, if it has one."""
    if number != Code.NONE:
        raise failure(number, message)
