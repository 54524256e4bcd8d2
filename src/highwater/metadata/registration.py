"""What the registrations of brokers and controllers have in common."""

from __future__ import annotations

from typing import NamedTuple


class RegisteredListener(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    min: int
    max: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.min <= level <= self.max

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min}-{self.max}"
