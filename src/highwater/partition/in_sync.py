"""What all leaders of one broker share: the clock, the longest permitted lag, and the way to the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from highwater.replication.alter_partition import Proposal
from highwater.replication.leader import Leader

if TYPE_CHECKING:
    from highwater.partition.partition import Partition


class Asks(Protocol):
    """Sends a proposal to the controller, and repeats it where that can help. The answer comes back through
    `Partition.isr_answered`."""

    def __call__(self, partition: Partition, leader: Leader, proposal: Proposal) -> None: ...


class InSync:
    def __init__(self, now: Callable[[], float], lag_seconds: Callable[[], float], ask: Asks) -> None:
        self.now = now
        self.lag_seconds = lag_seconds
        self._ask = ask
        self.shrinks = 0
        self.expands = 0

    def ask(self, partition: Partition, leader: Leader, proposal: Proposal) -> None:
        if proposal.expands:
            self.expands += 1
        else:
            self.shrinks += 1
        self._ask(partition, leader, proposal)
