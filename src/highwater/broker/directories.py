"""Reports to the controller which replicas are in another directory than metadata says (KIP-858), and which are
lost."""

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
"""The most replicas in one request: the controller decides on all of them before it does anything else."""
_log = logging.getLogger(__name__)


class ReplicaDirectories:
    """There is one request at a time. Until the controller knows, such a replica may be in sync but cannot lead."""

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
        self._unreported: dict[tuple[Uuid, int], Uuid] = {}
        """Replicas that the controller must learn of, each with the directory to report."""
        self._reported: dict[tuple[Uuid, int], Uuid] = {}
        """The replicas of the request that is under way."""
        self._under_way = False

    def look(self, topic_id: Uuid, index: int, part: PartitionImage) -> None:
        """Notes that the controller must learn the directory of a replica with a usable log, if metadata names another
        one. A replica on another disk that is still in the ISR or ELR is not reported: the controller removes it from
        the ISR when this broker registers. A replica that metadata calls lost is reported even then: it failed as the
        last of its ISR, no other log was made in its place, and so this is the same log."""
        directory = part.directory(self._local)
        if directory in self._fine or (self.is_elsewhere(part) and directory != DIRECTORY_LOST):
            self._unreported.pop((topic_id, index), None)
            self._reported.pop((topic_id, index), None)  # so it is not said again, if it was never heard
        else:
            self._unreported[topic_id, index] = self._directory

    def is_elsewhere(self, part: PartitionImage) -> bool:
        """Whether a replica of ours is in the ISR or ELR with another directory than this one. An empty log must not
        replace it."""
        counted = self._local in (*part.isr, *part.elr, *part.last_known_elr)
        return counted and part.directory(self._local) not in self._fine

    def lose(self, topic_id: Uuid, index: int, *, lasting: bool) -> None:
        """The log of a replica cannot be used: other replicas shall lead, and this one leaves the ISR. If the trouble
        is not `lasting`, the last copy keeps its place. `lasting` means that nothing of it is served before this broker
        restarts."""
        self._unreported[topic_id, index] = DIRECTORY_LOST if lasting else DIRECTORY_TROUBLED
        self.report()

    def report(self) -> None:
        """Sends what is unreported, when this broker is registered."""
        if not self._unreported or self._under_way or self._broker_epoch() < 0:
            return
        reported = dict(islice(self._unreported.items(), AT_ONCE))
        topics: dict[tuple[Uuid, Uuid], TopicData] = {}
        for (topic_id, index), directory in reported.items():
            topic = topics.setdefault((directory, topic_id), TopicData(topic_id=topic_id, partitions=[]))
            topic.partitions.append(PartitionData(partition_index=index))
        directories: dict[Uuid, DirectoryData] = {}
        for (directory, _), topic in topics.items():
            directories.setdefault(directory, DirectoryData(id=directory, topics=[])).topics.append(topic)
        _log.info("%d replicas are in another directory than the metadata says: reporting them", len(self._unreported))
        request = AssignReplicasToDirsRequest(
            broker_id=self._local, broker_epoch=self._broker_epoch(), directories=list(directories.values())
        )
        self._unreported = {key: directory for key, directory in self._unreported.items() if key not in reported}
        self._reported, self._under_way = reported, True
        self._controller.ask(request, AssignReplicasToDirsResponse, self._answered, PATIENCE_SECONDS)

    def _answered(self, answer: AssignReplicasToDirsResponse | None) -> None:
        """A refused partition is no longer ours, and newer metadata will say so; or it is the last copy, and stays."""
        reported, self._reported = self._reported, {}
        self._under_way = False
        if answer is None or answer.error_code != Code.NONE:
            why = "no answer" if answer is None else code_of(answer.error_code).name
            _log.warning("the controller did not accept the directories of %d replicas: %s", len(reported), why)
            for key, directory in reported.items():
                self._unreported.setdefault(key, directory)
            self._world.clock.call_later(RETRY_SECONDS, self.report)
        else:
            self.report()
