"""Incremental fetches (KIP-227): after the first one, a request names only changed partitions, and a response only
those with news."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from highwater.errors import Code
from highwater.model import TopicPartition

NO_SESSION = 0
FIRST_EPOCH = 0
SESSIONLESS = -1
_LAST_EPOCH = 2**31 - 1


class Ask(NamedTuple):
    """The content of the next request: its session, the partitions that it names, and those that it removes."""

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, int]
    forgotten: list[TopicPartition]


class FetchSession:
    """The client's side of a session with one broker. If the broker declines the session, every request names every
    partition."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, int] = {}

    def ask(self, wanted: Mapping[TopicPartition, int]) -> Ask:
        """The request for `wanted` (fetch offset by partition), if the broker remembers the session."""
        if not self._enabled:
            return Ask(NO_SESSION, SESSIONLESS, wanted, [])
        if self._id == NO_SESSION:
            self._epoch = FIRST_EPOCH
            self._known = dict(wanted)
            return Ask(NO_SESSION, FIRST_EPOCH, wanted, [])
        changed = {partition: offset for partition, offset in wanted.items() if self._known.get(partition) != offset}
        forgotten = [partition for partition in self._known if partition not in wanted]
        self._known = dict(wanted)
        return Ask(self._id, self._epoch, changed, forgotten)

    def answered(self, error: int, session_id: int) -> None:
        """Notes the top level of a response. After an error the next request begins a new session."""
        if error != Code.NONE:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known = {}
