"""Tells the controller where this broker's replicas lie, where metadata has them on a disk that is gone (KIP-858)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from highwater.broker.controller_channel import ControllerChannel
from highwater.errors import Code, code_of
from highwater.metadata.brokers import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from highwater.metadata.topics import PartitionImage
from highwater.model import NodeId, Uuid
from highwater.wire.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from highwater.world import World

RETRY_SECONDS = 1.0
PATIENCE_SECONDS = 30.0
_log = logging.getLogger(__name__)


class ReplicaDirectories:
    """One request under way at a time. Until the controller knows, such a replica may be in sync but cannot lead."""

    def __init__(
        self,
        world: World,
        local: NodeId,
        directory: Uuid,
        controller: ControllerChannel,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._world = world
        self._local = local
        self._fine = (directory, DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING)
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._elsewhere: dict[tuple[Uuid, int], None] = {}
        self._under_way = False

    def look(self, topic_id: Uuid, index: int, part: PartitionImage) -> None:
        """A replica of ours, as metadata has it. Not while that counts it in sync: so it was, on the disk that is gone.
        The controller takes it out of the ISR when this broker registers."""
        if part.directory(self._local) in self._fine or self._local in part.isr:
            self._elsewhere.pop((topic_id, index), None)
        else:
            self._elsewhere[topic_id, index] = None

    def report(self) -> None:
        """Of what has been looked at, once this broker is registered."""
        if not self._elsewhere or self._under_way or self._broker_epoch() < 0:
            return
        topics: dict[Uuid, TopicData] = {}
        for topic_id, index in self._elsewhere:
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id, partitions=[]))
            topic.partitions.append(PartitionData(partition_index=index))
        _log.info(
            "%d replicas lie in another directory than metadata says: the controller is told", len(self._elsewhere)
        )
        request = AssignReplicasToDirsRequest(
            broker_id=self._local,
            broker_epoch=self._broker_epoch(),
            directories=[DirectoryData(id=self._fine[0], topics=list(topics.values()))],
        )
        self._elsewhere.clear()
        self._under_way = True
        told = [(topic.topic_id, row.partition_index) for topic in topics.values() for row in topic.partitions]
        self._controller.ask(
            request, AssignReplicasToDirsResponse, lambda answer: self._answered(told, answer), PATIENCE_SECONDS
        )

    def _answered(self, told: list[tuple[Uuid, int]], answer: AssignReplicasToDirsResponse | None) -> None:
        """A partition that is refused is not ours any more; the metadata that says so is on its way."""
        self._under_way = False
        if answer is None or answer.error_code != Code.NONE:
            why = "no answer" if answer is None else code_of(answer.error_code).name
            _log.warning("the controller did not take in where %d replicas lie: %s", len(told), why)
            for key in told:
                self._elsewhere.setdefault(key)
            self._world.clock.call_later(RETRY_SECONDS, self.report)
        else:
            self.report()
