"""A mapping that is being changed. It shares everything with its base until the first write."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Inconsistent(ValueError):
    """A record contradicts the image that it is applied to. A controller would not have written this log."""


class Draft(Generic[K, V]):
    """Reads go to the base. The first write copies the base once. Without a write, `finish` returns the base itself."""

    __slots__ = ("_base", "_copy")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._copy: dict[K, V] | None = None

    def get(self, key: K) -> V | None:
        return (self._base if self._copy is None else self._copy).get(key)

    def put(self, key: K, value: V) -> None:
        self._writable()[key] = value

    def remove(self, key: K) -> None:
        self._writable().pop(key, None)

    def finish(self) -> Mapping[K, V]:
        return self._base if self._copy is None else self._copy

    def _writable(self) -> dict[K, V]:
        if self._copy is None:
            self._copy = dict(self._base)
        return self._copy
