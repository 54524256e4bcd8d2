"""The results of all sends, without the orders: those can be made again from their numbers."""

from __future__ import annotations

from array import array

from highwater.audit import Outcome, Sent
from highwater.cli.demo.orders import PARTITIONS, Order, order_of, partition_of
from highwater.model import TopicPartition

ROUND = 60
"""The number of orders that are sent together, in one batch for each partition."""

_NOT_SENT = -3
_UNANSWERED = -2


class Sends:
    """One number for each round and partition, however large the rounds are: less than half a byte for an order."""

    def __init__(self) -> None:
        self._bases = {partition: array("q") for partition in PARTITIONS}

    @property
    def rounds(self) -> int:
        return len(self._bases[PARTITIONS[0]])

    def begin_round(self) -> dict[TopicPartition, list[Order]]:
        """The orders of the next round, by partition."""
        batches = _round(self.rounds)
        for bases in self._bases.values():
            bases.append(_NOT_SENT)
        return batches

    def acknowledged(self, partition: TopicPartition, base_offset: int) -> None:
        """The batch of the last round was acknowledged; -1 if the leader did not name its offset."""
        self._bases[partition][-1] = base_offset

    def unanswered(self, partition: TopicPartition) -> None:
        self._bases[partition][-1] = _UNANSWERED

    def of_rounds(self, rounds: range) -> list[Sent]:
        """The sends of these rounds, in the order in which they were made."""
        return [sent for number in rounds for sent in self._of_round(number)]

    def _of_round(self, number: int) -> list[Sent]:
        found = []
        for partition, batch in _round(number).items():
            base = self._bases[partition][number]
            if base == _NOT_SENT:
                continue
            outcome = Outcome.UNKNOWN if base == _UNANSWERED else Outcome.ACKED
            for at, order in enumerate(batch):
                found.append(Sent(partition, order.value, "feed", outcome, base + at if base >= 0 else -1))
        return found


def _round(number: int) -> dict[TopicPartition, list[Order]]:
    found: dict[TopicPartition, list[Order]] = {}
    for order in map(order_of, range(number * ROUND, (number + 1) * ROUND)):
        found.setdefault(partition_of(order), []).append(order)
    return found
