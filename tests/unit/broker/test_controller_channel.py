"""How long a broker waits for its controller."""

from __future__ import annotations

from asyncio import BufferedProtocol
from itertools import pairwise

import pytest

from highwater.broker.controller_channel import ControllerChannel
from highwater.config import NodeConfig
from highwater.errors import Code
from highwater.model import Endpoint
from highwater.net.deadlines import DeadlineQueue
from highwater.sim import Knobs, Simulation
from highwater.sim.trace import Event
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from highwater.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from highwater.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from tests.unit.broker.living import PROPERTIES
from tests.unit.net.parties import Peer, framed

CONTROLLER = Endpoint("controller", 9093)
SUCCESSOR = Endpoint("successor", 9093)


class MuteController(Peer):
    """Answers ApiVersions, and nothing else; or heartbeats too, with this code."""

    def __init__(self, answers: Code | None = None) -> None:
        super().__init__()
        self.heard = 0
        self.answers = answers

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        for frame in self.frames[self.heard :]:
            self.heard += 1
            if int.from_bytes(frame[:2], "big") == ApiVersionsRequest.API_KEY:
                known = ApiVersion(api_key=BrokerHeartbeatRequest.API_KEY, min_version=0, max_version=1)
                body = ApiVersionsResponse(api_keys=[known]).encode(int.from_bytes(frame[2:4], "big"))
                self.send(framed(frame[4:8] + body))
            elif self.answers is not None:
                answer = BrokerHeartbeatResponse(error_code=self.answers)
                self.send(framed(frame[4:8] + b"\x00" + answer.encode(1)))


class Scene:
    """A channel of a broker, and a machine where its controller should be."""

    def __init__(self, **settings: str) -> None:
        self.sim = Simulation(1, Knobs(connect_timeout=1000.0))
        self.broker = self.sim.world("broker")
        self.controller = self.sim.world("controller")
        self.at = CONTROLLER
        self.events: list[tuple[float, str]] = []
        self.answers: list[BrokerHeartbeatResponse | None] = []
        config = NodeConfig.parse({**PROPERTIES, **{name.replace("_", "."): value for name, value in settings.items()}})
        deadlines = self.broker.call(DeadlineQueue, self.broker.clock)
        self.channel = ControllerChannel(self.broker, config, "broker-1", deadlines, lambda: self.at)
        self.made: list[MuteController] = []
        self.sim.on_event(self._see)

    def listen(self, at: Endpoint = CONTROLLER, *, answers: Code | None = None) -> None:
        """A controller listens there, which is mute or answers."""

        def accept() -> BufferedProtocol:
            self.made.append(MuteController(answers))
            return self.made[-1]

        machine = self.controller if at == CONTROLLER else self.sim.world(at.host)
        self.sim.run(machine.perform(machine.net.listen(accept, at)))

    def _see(self, event: Event) -> None:
        if event.node == "broker" and event.phase == "before":
            self.events.append((event.at, event.kind))

    def times(self, kind: str) -> list[float]:
        return [at for at, seen in self.events if seen == kind]

    def ask(self, seconds: float, patience: float | None = None) -> None:
        request = BrokerHeartbeatRequest(broker_id=1)
        self.broker.call(self.channel.ask, request, BrokerHeartbeatResponse, self.answers.append, seconds, patience)
        self.sim.run(self.sim.until(lambda: bool(self.answers), limit=1000))


def test_the_time_for_a_dial_grows_from_setup_timeout_ms_up_to_its_max() -> None:
    settings = {"socket_connection_setup_timeout_ms": "2000", "socket_connection_setup_timeout_max_ms": "6000"}
    scene = Scene(**settings)
    with scene.sim:
        scene.sim.cut("broker", "controller")
        scene.ask(seconds=30.0)
        assert scene.answers == [None]
        dials = scene.times("dial")
        gaps = [round(later - earlier) for earlier, later in pairwise(dials)]
        assert gaps[:4] == [2, 4, 6, 6]


def test_controller_socket_timeout_ms_bounds_one_try_and_the_connection_is_opened_again() -> None:
    scene = Scene(controller_socket_timeout_ms="3000")
    with scene.sim:
        scene.listen()
        scene.ask(seconds=10.0)
        assert scene.answers == [None]
        dials = scene.times("dial")
        assert [round(later - earlier) for earlier, later in pairwise(dials)][:2] == [3, 3]


def test_a_request_that_was_answered_leaves_no_deadline_behind() -> None:
    scene = Scene()
    with scene.sim:
        scene.listen(answers=Code.NONE)
        scene.ask(seconds=60.0, patience=10.0)
        assert scene.answers[0] is not None
        assert len(scene.channel._deadlines) == 0


def test_requests_of_a_stopped_controller_go_to_its_successor_at_once() -> None:
    scene = Scene()
    with scene.sim:
        scene.listen()
        scene.listen(SUCCESSOR)
        request = BrokerHeartbeatRequest(broker_id=1)
        scene.broker.call(scene.channel.ask, request, BrokerHeartbeatResponse, scene.answers.append, 9.0)
        scene.sim.run(scene.sim.until(lambda: bool(scene.made) and scene.made[0].heard == 2, limit=10))
        scene.broker.call(scene.channel.controller_moved)
        scene.sim.advance(1.0)
        assert len(scene.made) == 1, "it is still the same"
        scene.at = SUCCESSOR
        scene.broker.call(scene.channel.controller_moved)
        scene.sim.run(scene.sim.until(lambda: len(scene.made) == 2 and scene.made[1].heard == 2, limit=1))


def test_a_request_that_no_controller_has_taken_goes_to_the_next_one() -> None:
    scene = Scene()
    with scene.sim:
        scene.listen(answers=Code.NOT_CONTROLLER)
        scene.listen(SUCCESSOR, answers=Code.NONE)
        request = BrokerHeartbeatRequest(broker_id=1)
        scene.broker.call(scene.channel.ask, request, BrokerHeartbeatResponse, scene.answers.append, 9.0)
        scene.sim.run(scene.sim.until(lambda: bool(scene.made) and scene.made[0].heard == 2, limit=10))
        scene.at = SUCCESSOR
        scene.sim.run(scene.sim.until(lambda: bool(scene.answers), limit=10))
        assert [answer and answer.error_code for answer in scene.answers] == [Code.NONE]


def test_a_controller_that_is_new_counts_as_reachable_until_a_dial_fails() -> None:
    scene = Scene()
    with scene.sim:
        scene.ask(1.0)
        assert scene.answers == [None] and not scene.channel.reaches_controller
        scene.at = SUCCESSOR
        scene.broker.call(scene.channel.controller_moved)
        assert scene.channel.reaches_controller


def test_a_request_that_cannot_be_made_costs_no_other_its_answer() -> None:
    scene = Scene()
    with scene.sim:
        scene.sim.forgives = True
        scene.listen(answers=Code.NONE)
        for broker in (1 << 40, 1):
            request = BrokerHeartbeatRequest(broker_id=broker)
            scene.broker.call(scene.channel.ask, request, BrokerHeartbeatResponse, scene.answers.append, 9.0)
        scene.sim.run(scene.sim.until(lambda: len(scene.answers) == 2, limit=5))
        assert scene.answers == [None, BrokerHeartbeatResponse()]
        assert scene.broker.failures.counts["callback"] == 1


def test_a_request_fails_in_time_if_the_controller_channel_raises() -> None:
    """So nobody who marks a request as under way waits for ever for its end."""
    scene = Scene()
    with scene.sim:
        mistakes = [ZeroDivisionError("a mistake")]

        def mistaken() -> Endpoint:
            if mistakes:
                raise mistakes.pop()
            return scene.at

        scene.channel._controller = mistaken
        request = BrokerHeartbeatRequest(broker_id=1)
        with pytest.raises(ZeroDivisionError):
            scene.broker.call(scene.channel.ask, request, BrokerHeartbeatResponse, scene.answers.append, 9.0)
        scene.sim.run(scene.sim.until(lambda: bool(scene.answers), limit=10))
        assert scene.answers == [None]


def test_a_request_waits_no_longer_than_its_patience_for_a_controller_to_ask() -> None:
    scene = Scene()
    with scene.sim:
        scene.sim.cut("broker", "controller")
        begun = scene.broker.clock.monotonic()
        scene.ask(seconds=60.0, patience=10.0)
        assert scene.answers == [None]
        assert 10 <= scene.broker.clock.monotonic() - begun < 11


def test_patience_does_not_prolong_the_time_for_an_answer() -> None:
    scene = Scene()
    with scene.sim:
        scene.sim.cut("broker", "controller")
        begun = scene.broker.clock.monotonic()
        scene.ask(seconds=5.0, patience=10.0)
        assert scene.answers == [None]
        assert 5 <= scene.broker.clock.monotonic() - begun < 6


def test_a_controller_that_has_the_request_is_waited_for_and_then_no_other_is_asked() -> None:
    scene = Scene(controller_socket_timeout_ms="15000")
    with scene.sim:
        scene.listen()
        begun = scene.broker.clock.monotonic()
        scene.ask(seconds=60.0, patience=10.0)
        assert scene.answers == [None]
        assert 15 <= scene.broker.clock.monotonic() - begun < 16
        assert len(scene.made) == 1
