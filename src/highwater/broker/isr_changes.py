"""Sends the ISR changes of this broker's leaders to the controller, many in one AlterPartition request."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice

from highwater.broker.controller_channel import ControllerChannel
from highwater.errors import code_of
from highwater.model import NodeId, Uuid
from highwater.partition.partition import Partition
from highwater.replication.alter_partition import Answer, Meaning, Proposal, meaning_of
from highwater.replication.leader import Leader
from highwater.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.alter_partition_response import AlterPartitionResponse
from highwater.world import World

RETRY_SECONDS = 0.05
PATIENCE_SECONDS = 30.0
AT_ONCE = 500
"""The most partitions in one request: the controller decides on all of them before it does anything else."""
_log = logging.getLogger(__name__)

UNKNOWN_EPOCH = -1
Asked = tuple[Partition, Leader, Proposal]


class IsrChanges:
    """There is one request at a time. Proposals that it has no room for, or that come meanwhile, go into the next one.
    If a response is lost, the proposals are sent again: the controller recognises a repeated change (KAFKA-14144)."""

    def __init__(
        self,
        world: World,
        local: NodeId,
        controller: ControllerChannel,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._world = world
        self._local = local
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._waiting: dict[tuple[Uuid, int], Asked] = {}
        self._under_way = False

    def ask(self, partition: Partition, leader: Leader, proposal: Proposal) -> None:
        self._waiting[partition.topic_id, partition.tp.partition] = (partition, leader, proposal)
        if not self._under_way:
            self._under_way = True
            self._world.clock.call_soon(self._send)

    def _send(self) -> None:
        waiting = self._waiting.items()
        meant = iter(
            [(key, each) for key, each in waiting if each[1].proposal is each[2] and each[0].leader is each[1]]
        )
        asked = dict(islice(meant, AT_ONCE))
        self._waiting = dict(meant)
        if not asked:
            self._under_way = False
            return
        with self._world.failures.boundary("periodic", "changes of ISRs", lambda _: self._again(asked)):
            self._ask(asked)

    def _ask(self, asked: dict[tuple[Uuid, int], Asked]) -> None:
        topics: dict[Uuid, TopicData] = {}
        for (topic_id, index), (_, leader, proposal) in asked.items():
            isr = [
                BrokerState(broker_id=member, broker_epoch=self._epoch_of(member, epoch))
                for member, epoch in zip(proposal.isr, proposal.epochs, strict=True)
            ]
            topics.setdefault(topic_id, TopicData(topic_id=topic_id, partitions=[])).partitions.append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=leader.epoch,
                    new_isr_with_epochs=isr,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        request = AlterPartitionRequest(
            broker_id=self._local, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )
        self._controller.ask(
            request, AlterPartitionResponse, lambda answer: self._answered(asked, answer), PATIENCE_SECONDS
        )

    def _epoch_of(self, member: NodeId, proposed: int | None) -> int:
        if member == self._local:
            return self._broker_epoch()
        return UNKNOWN_EPOCH if proposed is None else proposed

    def _answered(self, asked: dict[tuple[Uuid, int], Asked], answer: AlterPartitionResponse | None) -> None:
        if answer is None or answer.error_code:
            why = "no answer" if answer is None else code_of(answer.error_code).name
            _log.warning("the controller did not accept %d changes of ISRs: %s", len(asked), why)
            self._again(asked)
            return
        again: dict[tuple[Uuid, int], Asked] = {}
        rows = {(topic.topic_id, row.partition_index): row for topic in answer.topics for row in topic.partitions}
        for key, each in asked.items():
            row = rows.get(key)
            if row is None or meaning_of(code := code_of(row.error_code)) is Meaning.UNANSWERED:
                again[key] = each
                continue
            partition, leader, proposal = each
            with self._world.failures.boundary("partition", str(partition.tp)):
                partition.isr_answered(leader, proposal, Answer(code, row.partition_epoch))
        if again:
            self._again(again)
        else:
            self._next()

    def _again(self, asked: dict[tuple[Uuid, int], Asked]) -> None:
        for key, each in asked.items():
            self._waiting.setdefault(key, each)
        self._world.clock.call_later(RETRY_SECONDS, self._send)

    def _next(self) -> None:
        self._under_way = False
        if self._waiting:
            self._under_way = True
            self._world.clock.call_soon(self._send)
