"""Incremental fetching (KIP-227): after the first request only what changed is sent, and only what has news comes."""

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
    """Our half of one broker's session. A broker may decline: then every request names every partition."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, int] = {}

    def ask(self, wanted: Mapping[TopicPartition, int]) -> Ask:
        """The request for `wanted` (fetch offset by partition), given what the broker remembers."""
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
        """Take note of the answer's head; after an error the next request starts anew."""
        if error != Code.NONE:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known = {}
