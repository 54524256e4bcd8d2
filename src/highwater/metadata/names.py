"""Decides which topic names are legal, and which would collide in metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def why_illegal(name: str) -> str | None:
    """The reason, in Kafka's words, because clients show it; None for a legal name."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return reason and f"Topic name is invalid: {reason}"


def colliding(name: str, existing: Iterable[str]) -> str | None:
    """An existing topic whose metrics would have the same name: in metrics, periods become underscores."""
    if "." not in name and "_" not in name:
        return None
    unified = name.replace(".", "_")
    return next((other for other in existing if other.replace(".", "_") == unified), None)
