"""Changing the ISR: by time, through the controller, one change of a partition at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from highwater.errors import Code
from highwater.model import Epoch, NodeId
from highwater.replication.leader import LeaderState, Proposal

if TYPE_CHECKING:
    from highwater.partition.partition import Partition

_log = logging.getLogger(__name__)

_BACK_TO_COMMITTED = (Code.OPERATION_NOT_ATTEMPTED, Code.INELIGIBLE_REPLICA)
_WAIT_FOR_METADATA = (
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
    Code.FENCED_LEADER_EPOCH,
    Code.INVALID_UPDATE_VERSION,
    Code.INVALID_REQUEST,
    Code.NEW_LEADER_ELECTED,
)


def is_asked_again(code: Code) -> bool:
    """After a pause: whatever says neither that the change was made or refused, nor that newer metadata is on its
    way."""
    return code is not Code.NONE and code not in _BACK_TO_COMMITTED and code not in _WAIT_FOR_METADATA


class Changed(NamedTuple):
    """The controller's answer to a proposal."""

    code: Code
    isr: tuple[NodeId, ...] = ()
    leader_epoch: Epoch = -1
    partition_epoch: int = -1


class Asks(Protocol):
    """How a proposal reaches the controller, again and again where that pays; `done` is called once."""

    def __call__(
        self, partition: Partition, leader: LeaderState, proposal: Proposal, done: Callable[[Changed], None]
    ) -> None: ...


class InSync:
    """The rules of one broker; `is_alive` tells whether a broker (of that epoch, if it is known) may be in an ISR."""

    def __init__(
        self,
        now: Callable[[], float],
        lag_seconds: Callable[[], float],
        broker_epoch_of: Callable[[NodeId], int | None],
        ask: Asks,
    ) -> None:
        self.now = now
        self.lag_seconds = lag_seconds
        self._broker_epoch_of = broker_epoch_of
        self._ask = ask
        self.shrinks = 0
        self.expands = 0

    def broker_epoch(self, replica: NodeId) -> int | None:
        """None for a broker that is fenced, shutting down or unknown."""
        return self._broker_epoch_of(replica)

    def is_eligible(self, replica: NodeId, leader: LeaderState) -> bool:
        """Unfenced, not shutting down, and the incarnation that fetches is the registered one (KIP-841, KIP-903)."""
        progress = leader.followers.get(replica)
        return progress is not None and progress.broker_epoch == self._broker_epoch_of(replica)

    def maybe_expand(self, partition: Partition, leader: LeaderState, replica: NodeId) -> None:
        if leader.may_join(replica, partition.log.high_watermark) and self.is_eligible(replica, leader):
            self._propose(partition, leader, (*leader.isr, replica), f"{replica} has caught up")

    def maybe_shrink(self, partition: Partition, leader: LeaderState) -> None:
        if leader.proposal is not None:
            return
        end, now, limit = partition.log.log_end, self.now(), self.lag_seconds()
        out = leader.out_of_sync(end, now, limit)
        if out:
            ages = ", ".join(
                f"{replica} last caught up {now - leader.caught_up_at(replica, end):.1f} s ago" for replica in out
            )
            isr = tuple(replica for replica in leader.isr if replica not in out)
            self._propose(partition, leader, isr, f"{ages}, limit {limit:g} s")

    def _propose(self, partition: Partition, leader: LeaderState, isr: tuple[NodeId, ...], why: str) -> None:
        _log.debug("%s: ISR %s -> %s is asked for: %s", partition.tp, list(leader.isr), list(isr), why)
        proposal = leader.propose(isr, partition.partition_epoch, why)
        if proposal.expands:
            self.expands += 1
        else:
            self.shrinks += 1
        self._ask(partition, leader, proposal, lambda changed: self._answered(partition, leader, proposal, changed))

    def _answered(self, partition: Partition, leader: LeaderState, proposal: Proposal, changed: Changed) -> None:
        """An answer to what is no longer asked for, or from an earlier term, says nothing."""
        if partition.leader is not leader or leader.proposal is not proposal:
            return
        if changed.code is Code.NONE:
            if changed.partition_epoch > partition.partition_epoch:
                partition.partition_epoch = changed.partition_epoch
                partition.take_isr(leader, leader.replicas, changed.isr)
                partition.let_in_joining()
            else:
                leader.withdraw(proposal)
        elif changed.code in _BACK_TO_COMMITTED:
            leader.withdraw(proposal)
        partition.advance()
