"""What the controller remembers of brokers changes once its decision is in the log, and not before."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from highwater.controller.decision import Decision
from highwater.errors import Code
from highwater.model import Endpoint, NodeId
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.sim.knobs import Knobs
from highwater.wire.codec import Message
from highwater.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from highwater.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from highwater.wire.messages.topic_record import TopicRecord
from tests.unit.active_controller.test_active_controller import DYING, OTHER, controller_of, decide
from tests.unit.broker.living import CLIENT, METADATA, NODE, Living
from tests.unit.controller.clusters import directory, epoch, registered, topic_id
from tests.unit.controller.test_brokers import request as registration

SESSION = 9.0
"""The default of broker.session.timeout.ms, in seconds."""
LOG = f"{METADATA}/*.log"


class Line:
    """A broker's connection to the controller, which stays open."""

    def __init__(self, living: Living) -> None:
        self._living = living
        self._opened = False
        self.ended: Gone | None = None
        world = living._client
        self._connection = ClientConnection(world, Endpoint(NODE, 9093), "line", DeadlineQueue(world.clock), self._end)
        world.call(self._connection.open, self._open, 60.0)
        living.sim.run(living.sim.until(lambda: self._opened))
        self._world = world

    def _open(self) -> None:
        self._opened = True

    def _end(self, why: Gone) -> None:
        self.ended = why

    def ask_at_once(self, *requests: tuple[Message, int], response: type[Message]) -> list[Message]:
        """All are sent before the first is answered."""
        answers: list[Message] = []

        def take(answer: Message | CallFailed) -> None:
            assert not isinstance(answer, CallFailed), answer
            answers.append(answer)

        for request, version in requests:
            self._world.call(self._connection.send, request, version, response, take, 60.0)
        self._living.sim.run(self._living.sim.until(lambda: len(answers) == len(requests)))
        return answers

    def heartbeat(self, broker: NodeId, **wishes: bool) -> BrokerHeartbeatResponse:
        asked = BrokerHeartbeatRequest(
            broker_id=broker, broker_epoch=epoch(broker), current_metadata_offset=1 << 40, **wishes
        )
        [answer] = self.ask_at_once((asked, 1), response=BrokerHeartbeatResponse)
        assert isinstance(answer, BrokerHeartbeatResponse)
        return answer

    def close(self) -> None:
        self._world.call(self._connection.close)
        self._living.sim.run(self._living.sim.until(lambda: self.ended is not None))


def reachable(broker: NodeId) -> RegisterBrokerRecord:
    """At a port of the client's machine, where nothing listens."""
    record = registered(broker)
    record.end_points = [BrokerEndpoint(name="PLAINTEXT", host=CLIENT, port=9000 + broker)]
    return record


def led(living: Living, *leaders: NodeId) -> None:
    """A topic with a partition for each of these leaders, with replicas on brokers 2 and 3."""
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id("t"),
            replicas=[DYING, OTHER],
            isr=[DYING, OTHER],
            leader=leader,
            directories=[directory(DYING), directory(OTHER)],
        )
        for index, leader in enumerate(leaders)
    ]
    decide(living, [registered(DYING), registered(OTHER), TopicRecord(name="t", topic_id=topic_id("t")), *partitions])


def leaders(living: Living) -> list[int]:
    partitions = living.node.raft.committed.topics.by_name["t"].partitions
    return [partition.leader for _, partition in sorted(partitions.items())]


def is_fenced(living: Living, broker: NodeId) -> bool:
    return living.node.raft.committed.brokers.by_id[broker].fenced


def test_a_controlled_shutdown_that_could_not_be_written_begins_again_with_the_next_heartbeat() -> None:
    with Living().start() as living:
        led(living, DYING)
        line = Line(living)
        living.sim.storage(NODE).fail("append", LOG, errno.ENOSPC, times=1)
        assert line.heartbeat(DYING, want_shut_down=True).error_code == Code.NOT_CONTROLLER
        assert leaders(living) == [DYING]

        assert not line.heartbeat(DYING, want_shut_down=True).should_shut_down
        assert leaders(living) == [OTHER]
        line.heartbeat(OTHER)
        living.sim.advance(SESSION / 3)  # the node's own broker sends its heartbeat, too
        assert line.heartbeat(DYING, want_shut_down=True).should_shut_down


def test_a_broker_whose_end_could_not_be_written_is_fenced_when_it_falls_silent() -> None:
    """It leads nothing and may stop at once, but the disk is full, and then it is heard of no more."""
    with Living().start() as living:
        led(living, OTHER)
        line = Line(living)
        living.sim.storage(NODE).fail("append", LOG, errno.ENOSPC, times=1)
        assert line.heartbeat(DYING, want_shut_down=True).error_code == Code.NOT_CONTROLLER
        assert not is_fenced(living, DYING)

        living.sim.run(living.sim.until(lambda: is_fenced(living, DYING), limit=2 * SESSION))


def test_a_heartbeat_counts_though_what_it_led_to_could_not_be_written() -> None:
    with Living().start() as living:
        led(living, DYING)
        line = Line(living)
        line.heartbeat(DYING)
        full = living.sim.storage(NODE).fail("append", LOG, errno.ENOSPC, times=None)
        for _ in range(4):
            living.sim.advance(SESSION / 3)
            assert line.heartbeat(DYING, want_shut_down=True).error_code == Code.NOT_CONTROLLER
        living.sim.storage(NODE).mend(full)
        living.sim.advance(SESSION / 2)
        assert not is_fenced(living, DYING)


@pytest.mark.parametrize("other", [-1, 1])
def test_a_heartbeat_of_another_epoch_is_no_sign_of_life(other: int) -> None:
    """Anybody can send one, for example an earlier incarnation of the broker."""
    with Living().start() as living:
        led(living, OTHER)
        line = Line(living)
        line.heartbeat(DYING)
        stale = BrokerHeartbeatRequest(broker_id=DYING, broker_epoch=epoch(DYING) + other)
        for _ in range(12):
            living.sim.advance(SESSION / 10)
            [answer] = line.ask_at_once((stale, 1), response=BrokerHeartbeatResponse)
            assert isinstance(answer, BrokerHeartbeatResponse) and answer.error_code == Code.STALE_BROKER_EPOCH
        assert is_fenced(living, DYING)


def proven_dead_with_a_full_disk(living: Living, broker: NodeId) -> None:
    """It is heard of, its connection ends and its port refuses twice; and then the fencing cannot be written."""
    full = living.sim.storage(NODE).fail("append", LOG, errno.ENOSPC, times=None)
    line = Line(living)
    line.heartbeat(broker)
    line.close()
    living.sim.run(living.sim.until(lambda: full.struck > 0))
    living.sim.advance(0.1)
    living.sim.storage(NODE).mend(full)
    assert not is_fenced(living, broker)


def vanish(living: Living, broker: NodeId) -> None:
    line = Line(living)
    line.heartbeat(broker)
    line.close()


def test_fencings_by_proof_that_could_not_be_written_do_not_count_against_the_next() -> None:
    """Three in a minute that an incarnation survived would leave it to the timer; these never were."""
    with Living().start() as living:
        decide(living, [reachable(DYING), registered(OTHER)])
        for _ in range(3):
            proven_dead_with_a_full_disk(living, DYING)
            living.sim.advance(0.5)
        vanish(living, DYING)
        living.sim.run(living.sim.until(lambda: is_fenced(living, DYING), limit=SESSION / 3))


def test_a_broker_whose_fencing_could_not_be_written_still_counts_as_one_of_those_there_are() -> None:
    """Brokers 2 and 3 of four vanish together, one a little after the other: the controller suspects itself."""
    with Living().start() as living:
        decide(living, [reachable(DYING), reachable(OTHER), registered(NodeId(4))])
        proven_dead_with_a_full_disk(living, DYING)
        vanish(living, OTHER)
        living.sim.advance(SESSION / 3)
        assert not is_fenced(living, OTHER)


@pytest.mark.parametrize("controller_is", ["idle", "busy"])
def test_two_registrations_that_were_sent_at_once_prove_no_death(controller_is: str) -> None:
    """The second is sent before the refusal of the first can have been read: its sender may be dead. The two arrive
    together."""
    with Living(knobs=Knobs(link_delay=(0.0005, 0.0005), tiny_segments=0.0)).start() as living:
        decide(living, [registered(DYING)])
        line = Line(living)
        line.heartbeat(DYING)
        if controller_is == "busy":
            living.sim.storage(NODE).drag = 100.0
            living.world.call(controller_of(living).decide, lambda: Decision(True, [NoOpRecord()]), lambda _: None)
        asked = registration(DYING, life=2)
        answers = line.ask_at_once((asked, 4), (asked, 4), response=BrokerRegistrationResponse)
        assert _codes(answers) == [Code.DUPLICATE_BROKER_REGISTRATION] * 2
        assert _codes(line.ask_at_once((asked, 4), response=BrokerRegistrationResponse)) == [Code.NONE]


def _codes(answers: Sequence[Message]) -> list[int]:
    return [answer.error_code for answer in answers if isinstance(answer, BrokerRegistrationResponse)]


def test_a_decision_that_its_controller_could_not_write_leaves_no_soft_state() -> None:
    """It takes several pieces, and between two of them another epoch of the quorum begins."""
    with Living().start() as living:
        controller, remembered, answers = controller_of(living), list[object](), list[bool | None]()
        records = [
            ConfigRecord(resource_type=4, resource_name="1", name=f"some.{number}", value="x") for number in range(500)
        ]
        end, epoch_before = living.node.raft.log_end, controller.epoch
        assert epoch_before is not None

        def begin() -> None:
            controller.decide(lambda: Decision(True, records), answers.append, remembered.append)
            living.node.raft.resign(epoch_before)

        living.world.call(begin)
        living.sim.run(living.sim.until(lambda: bool(answers)))
        assert (answers, remembered, living.node.raft.log_end) == ([None], [], end)
        living.sim.run(living.sim.until(lambda: controller.is_active))
        assert controller.epoch != epoch_before
        decide(living, records)


def test_a_broker_that_is_unfenced_right_behind_its_own_fencing_is_fenced_when_it_is_silent_again() -> None:
    """Its heartbeat came while its fencing waited for something else to be decided: its session ended with that."""
    with Living().start() as living:
        led(living, DYING)
        controller = controller_of(living)
        line = Line(living)
        line.heartbeat(DYING)
        assert not is_fenced(living, DYING)
        living.node.world.call(controller.watch.liveness.forget, DYING, epoch(DYING))
        living.sim.advance(SESSION + 2.0)
        assert is_fenced(living, DYING)


def test_a_silent_broker_is_fenced_in_time_however_seldom_an_idle_controller_writes() -> None:
    with Living(metadata_max_idle_interval_ms="600000").start() as living:
        led(living, DYING)
        living.sim.advance(SESSION + 2.0)
        assert is_fenced(living, DYING)


def test_a_fenced_broker_has_no_session_that_could_end_again() -> None:
    with Living().start() as living:
        led(living, DYING)
        living.sim.run(living.sim.until(lambda: is_fenced(living, DYING), limit=2 * SESSION))
        watch, later = controller_of(living).watch, living.world.clock.monotonic() + 10 * SESSION
        assert DYING not in dict(watch.liveness.expired(later))


def test_a_controller_that_was_stalled_gives_every_broker_a_new_session() -> None:
    """Heartbeats that came meanwhile are not read yet, so silence proves nothing."""
    with Living().start() as living:
        led(living, DYING)
        line = Line(living)
        line.heartbeat(DYING)
        living.sim.advance(SESSION - 1.0)
        now = living.world.clock.monotonic()
        living.world.call(controller_of(living).watch.fence_silent, now - 1.0, now)
        living.sim.advance(SESSION - 1.0)
        assert not is_fenced(living, DYING)
        living.sim.advance(2.0)
        assert is_fenced(living, DYING)
