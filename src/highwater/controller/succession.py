"""A broker that died and starts again need not wait for its old session: the lock of its directory proves the death.

Whoever registers with a directory has its lock, from before it asks until its process ends. So of two incarnations
that name one directory one is gone; but a registration of the dead one may still be on its way, and must not put out
the living one. Whoever is refused and asks again on the same connection has read the refusal: it lived, and held the
lock, after the other had registered. So the other is the dead one.
"""

from __future__ import annotations

from typing import NamedTuple

from highwater.metadata.brokers import BrokerRegistration
from highwater.model import Uuid


class _Claim(NamedTuple):
    incarnation: Uuid
    against: tuple[int, Uuid, int]
    """The broker, the incarnation and the epoch that stood in its way."""


def _claim(incarnation: Uuid, existing: BrokerRegistration) -> _Claim:
    return _Claim(incarnation, (existing.id, existing.incarnation, existing.epoch))


class Succession:
    """Soft state of the active controller: what it has refused, by connection."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[object, _Claim] = {}

    def outlives(self, connection: object, incarnation: Uuid, existing: BrokerRegistration) -> bool:
        """Whether this incarnation was refused on this connection for the same reason, and so has outlived it."""
        return self._refused.get(connection) == _claim(incarnation, existing)

    def refused(self, connection: object, incarnation: Uuid, existing: BrokerRegistration) -> None:
        """The refusal is on its way: what comes after it on this connection may prove something."""
        self._refused[connection] = _claim(incarnation, existing)

    def has_refused(self, connection: object) -> bool:
        return connection in self._refused

    def closed(self, connection: object) -> None:
        self._refused.pop(connection, None)
