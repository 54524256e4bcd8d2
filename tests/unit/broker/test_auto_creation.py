"""Topics that are made because somebody asked about them: never more than some at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from highwater.broker.auto_creation import MOST_AT_A_TIME, AutoCreation
from highwater.broker.controller_channel import ControllerChannel
from highwater.errors import Code
from highwater.sim import Simulation
from highwater.wire.codec import Message
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from tests.unit.broker.living import Living


class Channel(ControllerChannel):
    """Holds what is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Callable[[Any], None]]] = []

    @property
    def reaches_controller(self) -> bool:
        return True

    def ask(self, request: Message, response: type[Any], done: Callable[[Any], None], seconds: float) -> None:
        assert isinstance(request, CreateTopicsRequest)
        self.asked.append(([topic.name for topic in request.topics], done))


def topics(first: int, end: int) -> list[CreatableTopic]:
    return [CreatableTopic(name=f"t{number}") for number in range(first, end)]


def test_the_number_of_topics_that_are_created_automatically_at_a_time_is_bounded() -> None:
    with Simulation(1) as sim:
        world, channel = sim.world("n1"), Channel()
        creation = AutoCreation(world, channel, lambda: 5000, lambda name: False)
        answers: list[Mapping[str, Code]] = []
        assert world.call(creation.want, topics(0, MOST_AT_A_TIME + 500), answers.append) is not None
        ((names, done),) = channel.asked
        assert len(names) == MOST_AT_A_TIME
        assert world.call(creation.want, topics(MOST_AT_A_TIME, MOST_AT_A_TIME + 9), answers.append) is None
        assert answers == [{}], "who asks for more is answered at once, and asks again"
        assert len(channel.asked) == 1
        refused = [CreatableTopicResult(name=name, error_code=Code.INVALID_PARTITIONS) for name in names]
        world.call(done, CreateTopicsResponse(topics=refused))
        assert world.call(creation.want, topics(MOST_AT_A_TIME, MOST_AT_A_TIME + 9), answers.append) is not None
        assert len(channel.asked) == 2


def test_a_made_up_topic_name_neither_fills_the_log_nor_forges_a_line(caplog: pytest.LogCaptureFixture) -> None:
    name = "x\n" + "y" * 30_000
    refused = CreatableTopicResult(
        name=name, error_code=Code.INVALID_TOPIC_EXCEPTION, error_message=f"'{name}' is long"
    )
    with Simulation(1) as sim:
        world, channel = sim.world("n1"), Channel()
        creation = AutoCreation(world, channel, lambda: 5000, lambda name: False)
        world.call(creation.want, [CreatableTopic(name=name)], lambda refused: None)
        ((_, done),) = channel.asked
        world.call(done, CreateTopicsResponse(topics=[refused]))
    (line,) = caplog.messages
    assert line.startswith("topic 'x\\nyyy")
    assert "INVALID_TOPIC_EXCEPTION" in line
    assert "\n" not in line
    assert len(line) < 1_000


def test_topics_that_cannot_be_created_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with Living(default_replication_factor="3").start() as living:
        for number in range(20):
            wanted = [MetadataRequestTopic(name=f"t{number}-{index}") for index in range(10)]
            living.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=True), MetadataResponse, 12)
    lines = [each for each in caplog.records if "cannot be created" in each.getMessage()]
    assert len(lines) == 1
