"""Tells the controller where this broker's replicas lie, where metadata has them on a disk that is gone (KIP-858), and
which ones are lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice

from highwater.broker.controller_channel import ControllerChannel
from highwater.errors import Code, code_of
from highwater.metadata.brokers import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_TROUBLED, DIRECTORY_UNASSIGNED
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
AT_ONCE = 500
"""Replicas in one request: the controller decides on all of them before it does anything else."""
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
        self._directory = directory
        self._fine = (directory, DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING)
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._untold: dict[tuple[Uuid, int], Uuid] = {}
        """Replicas, and the directories that they are to be told of in."""
        self._under_way = False

    def look(self, topic_id: Uuid, index: int, part: PartitionImage) -> None:
        """Notes that the controller is to be told where a replica of ours lies, if metadata has it elsewhere. Its log
        can be used. A replica that is counted on as it was on another disk is not told of: the controller takes it out
        of the ISR when this broker registers. One that is lost is told of, though it is counted on: it failed as the
        last of its ISR, nothing was made in its place, and so this is the same log."""
        directory = part.directory(self._local)
        if directory in self._fine or (self.is_elsewhere(part) and directory != DIRECTORY_LOST):
            self._untold.pop((topic_id, index), None)
        else:
            self._untold[topic_id, index] = self._directory

    def is_elsewhere(self, part: PartitionImage) -> bool:
        """Whether a replica of ours is counted on as it is, or was, in a directory that is not this one: an empty log
        must not take its place."""
        counted = self._local in (*part.isr, *part.elr, *part.last_known_elr)
        return counted and part.directory(self._local) not in self._fine

    def lose(self, topic_id: Uuid, index: int, *, lasting: bool) -> None:
        """A replica whose log cannot be used: others shall lead it, and nobody count on it. Unless the trouble is
        `lasting`, so that nothing of it is served before this broker starts again, the last copy keeps its place."""
        self._untold[topic_id, index] = DIRECTORY_LOST if lasting else DIRECTORY_TROUBLED
        self.report()

    def report(self) -> None:
        """Of what has been looked at, once this broker is registered."""
        if not self._untold or self._under_way or self._broker_epoch() < 0:
            return
        told = dict(islice(self._untold.items(), AT_ONCE))
        topics: dict[tuple[Uuid, Uuid], TopicData] = {}
        for (topic_id, index), directory in told.items():
            topic = topics.setdefault((directory, topic_id), TopicData(topic_id=topic_id, partitions=[]))
            topic.partitions.append(PartitionData(partition_index=index))
        directories: dict[Uuid, DirectoryData] = {}
        for (directory, _), topic in topics.items():
            directories.setdefault(directory, DirectoryData(id=directory, topics=[])).topics.append(topic)
        _log.info("%d replicas are not where metadata has them: the controller is told", len(self._untold))
        request = AssignReplicasToDirsRequest(
            broker_id=self._local, broker_epoch=self._broker_epoch(), directories=list(directories.values())
        )
        self._untold = {key: directory for key, directory in self._untold.items() if key not in told}
        self._under_way = True
        self._controller.ask(
            request, AssignReplicasToDirsResponse, lambda answer: self._answered(told, answer), PATIENCE_SECONDS
        )

    def _answered(self, told: dict[tuple[Uuid, int], Uuid], answer: AssignReplicasToDirsResponse | None) -> None:
        """A partition that is refused is not ours any more, and the metadata that says so is on its way; or it is the
        last copy, and stays."""
        self._under_way = False
        if answer is None or answer.error_code != Code.NONE:
            why = "no answer" if answer is None else code_of(answer.error_code).name
            _log.warning("the controller did not take in where %d replicas lie: %s", len(told), why)
            for key, directory in told.items():
                self._untold.setdefault(key, directory)
            self._world.clock.call_later(RETRY_SECONDS, self.report)
        else:
            self.report()
