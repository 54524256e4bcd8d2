from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.directories import AT_ONCE, RETRY_SECONDS, ReplicaDirectories
from highwater.errors import Code
from highwater.metadata.brokers import DIRECTORY_LOST, DIRECTORY_UNASSIGNED
from highwater.metadata.topics import PartitionImage
from highwater.model import NodeId, Uuid
from highwater.sim.simulation import Simulation
from highwater.wire.codec import Message
from highwater.wire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from highwater.wire.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

ME, OTHER = NodeId(1), NodeId(2)
GONE, HERE, THERE = (Uuid(bytes([9, number]) + bytes(14)) for number in range(3))
TOPIC = Uuid(b"a topic's own id")


class Channel(ControllerChannel):
    """Holds what is asked."""

    def __init__(self) -> None:
        self.asked: deque[tuple[AssignReplicasToDirsRequest, Callable[[Any], None]]] = deque()

    def ask(self, request: Message, response: type[Any], done: Callable[[Any], None], seconds: float) -> None:
        assert isinstance(request, AssignReplicasToDirsRequest)
        self.asked.append((request, done))


class Subject:
    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.channel = Channel()
        self.epoch = 5
        self.directories = ReplicaDirectories(sim.world("n1"), ME, HERE, self.channel, lambda: self.epoch)

    def look(self, index: int, directory: Uuid, isr: tuple[NodeId, ...] = (OTHER,)) -> None:
        part = PartitionImage(
            replicas=(OTHER, ME),
            directories=(THERE, directory),
            isr=isr,
            leader=OTHER,
            leader_epoch=0,
            partition_epoch=0,
        )
        self.directories.look(TOPIC, index, part)

    def asked(self) -> tuple[list[int], Callable[[Any], None]]:
        """The partitions of the one request that is under way, and the way to answer it."""
        (request, done) = self.channel.asked.popleft()
        assert not self.channel.asked
        assert (request.broker_id, request.broker_epoch) == (ME, self.epoch)
        (directory,) = request.directories
        (topic,) = directory.topics
        assert (directory.id, topic.topic_id) == (HERE, TOPIC)
        return [partition.partition_index for partition in topic.partitions], done


@pytest.fixture
def subject() -> Iterator[Subject]:
    with Simulation(1) as sim:
        yield Subject(sim)


def test_only_replicas_that_lie_elsewhere_and_are_not_counted_in_sync_are_reported(subject: Subject) -> None:
    subject.look(0, HERE)
    subject.look(1, DIRECTORY_UNASSIGNED)
    subject.look(2, GONE, isr=(OTHER, ME))
    subject.directories.report()
    assert not subject.channel.asked
    subject.look(2, GONE)
    subject.look(3, GONE)
    subject.directories.report()
    assert subject.asked()[0] == [2, 3]


def test_a_directory_that_metadata_has_corrected_meanwhile_is_not_reported(subject: Subject) -> None:
    subject.look(0, GONE)
    subject.look(0, HERE)
    subject.directories.report()
    assert not subject.channel.asked


def test_nothing_is_reported_before_the_broker_is_registered(subject: Subject) -> None:
    subject.epoch = -1
    subject.look(0, GONE)
    subject.directories.report()
    assert not subject.channel.asked
    subject.epoch = 7
    subject.directories.report()
    assert subject.asked()[0] == [0]


def test_directories_noted_during_a_request_go_into_the_next_one(subject: Subject) -> None:
    subject.look(0, GONE)
    subject.directories.report()
    subject.look(1, GONE)
    subject.directories.report()
    reported, done = subject.asked()
    assert reported == [0]
    done(AssignReplicasToDirsResponse())
    assert subject.asked()[0] == [1]


def test_many_replica_directories_are_reported_in_several_requests(subject: Subject) -> None:
    for index in range(2 * AT_ONCE + 1):
        subject.look(index, GONE)
    subject.directories.report()
    first, done = subject.asked()
    subject.look(0, GONE)
    done(None)
    subject.sim.advance(RETRY_SECONDS * 1.1)
    second, done = subject.asked()
    done(AssignReplicasToDirsResponse())
    third, done = subject.asked()
    done(AssignReplicasToDirsResponse())
    assert [len(first), len(second), len(third)] == [AT_ONCE] * 3
    assert sorted({*second, *third, *subject.asked()[0]}) == list(range(2 * AT_ONCE + 1))


@pytest.mark.parametrize("answer", [None, AssignReplicasToDirsResponse(error_code=Code.STALE_BROKER_EPOCH)])
def test_a_report_that_was_not_accepted_is_sent_again(
    subject: Subject, answer: AssignReplicasToDirsResponse | None
) -> None:
    subject.look(0, GONE)
    subject.directories.report()
    _, done = subject.asked()
    done(answer)
    assert not subject.channel.asked
    subject.sim.advance(RETRY_SECONDS * 1.1)
    assert subject.asked()[0] == [0]


@pytest.mark.parametrize("counted", ["isr", "elr", "last_known_elr"])
def test_a_replica_that_is_counted_on_elsewhere_is_replaced_by_no_empty_log(subject: Subject, counted: str) -> None:
    def is_elsewhere(directory: Uuid, members: tuple[int, ...]) -> bool:
        part = PartitionImage(
            replicas=(OTHER, ME),
            directories=(THERE, directory),
            isr=(),
            leader=OTHER,
            leader_epoch=0,
            partition_epoch=0,
        )
        return subject.directories.is_elsewhere(part._replace(**{counted: members}))

    assert is_elsewhere(GONE, (ME,))
    assert is_elsewhere(DIRECTORY_LOST, (ME,))
    assert not is_elsewhere(GONE, (OTHER,))
    assert not is_elsewhere(HERE, (ME,))
    assert not is_elsewhere(DIRECTORY_UNASSIGNED, (ME,))


def test_a_replica_that_works_again_is_not_reported_as_lost_because_the_first_report_was_not_answered(
    subject: Subject,
) -> None:
    """Its disk was full for a moment. The controller never heard of it, and would take the replica out of the ISR."""
    for index in (0, 1):
        subject.directories.lose(TOPIC, index, lasting=False)
    _, done = subject.channel.asked.popleft()
    subject.look(0, HERE, isr=(OTHER, ME))
    done(None)
    subject.sim.advance(RETRY_SECONDS + 0.1)
    (request, _) = subject.channel.asked.popleft()
    named = [part.partition_index for each in request.directories for topic in each.topics for part in topic.partitions]
    assert named == [1], "the other one has not come back"
