"""What clients learn of a broker that has just gone, in the simulated world: first the new leaders, then the loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from highwater.broker.departed import RECENT_SECONDS, SECOND_ANSWER_SECONDS
from highwater.broker.doubts import ACQUAINTED_SECONDS
from highwater.model import NodeId
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from tests.scenarios.stage import Stage
from tests.scenarios.visitor import ORDERS

REQUEST = MetadataRequest(topics=[MetadataRequestTopic(name=ORDERS.topic)])
ALL, LEFT = {1, 2, 3}, {1, 3}


def brokers_and_leader(answer: MetadataResponse) -> tuple[set[int], int]:
    """The brokers, and who leads."""
    return {each.node_id for each in answer.brokers}, answer.topics[0].partitions[0].leader_id


def ask(stage: Stage, times: int = 2) -> tuple[list[tuple[set[int], int]], list[float]]:
    """At once, on one connection; the answers, and when they came."""

    async def heard() -> tuple[tuple[set[int], int], float]:
        answer = await stage.client.ask("n1", REQUEST, MetadataResponse)
        return brokers_and_leader(answer), stage.now

    asked = [stage.begin(heard()) for _ in range(times)]
    stage.until(lambda: all(each.done for each in asked))
    answers = [each.result for each in asked if each.result is not None]
    return [what for what, _ in answers], [when for _, when in answers]


def prepare(stage: Stage) -> None:
    """2 leads, and the client has been connected to 1 for a while."""
    stage.create(replicas=(2, 3))
    stage.send(b"m1")
    assert ask(stage)[0] == [(ALL, 2), (ALL, 2)]
    stage.pass_time(2 * ACQUAINTED_SECONDS)


def await_fencing(stage: Stage) -> None:
    broker = stage.node("n1").broker
    stage.until(lambda: broker.metadata.image.brokers.by_id[NodeId(2)].fenced)


@contextmanager
def bereft() -> Iterator[Stage]:
    """2 has just died, and is fenced."""
    with Stage(3, voters=1) as stage:
        prepare(stage)
        stage.kill("n2")
        await_fencing(stage)
        yield stage


def test_a_client_hears_of_the_new_leader_before_it_hears_that_the_old_one_is_gone() -> None:
    with bereft() as stage:
        answers, times = ask(stage)
        assert answers == [(ALL, 3), (LEFT, 3)]
        assert times[1] - times[0] > SECOND_ANSWER_SECONDS / 2, "so that its partitions are moved by then"
        assert ask(stage)[0] == [(LEFT, 3), (LEFT, 3)]


def test_no_last_answer_lists_the_dead() -> None:
    with bereft() as stage:
        assert ask(stage, times=1)[0] == [(LEFT, 3)]
        assert ask(stage, times=3)[0] == [(ALL, 3), (LEFT, 3), (LEFT, 3)]


def test_a_late_metadata_request_does_not_list_the_dead_broker() -> None:
    with bereft() as stage:
        stage.pass_time(RECENT_SECONDS)
        assert ask(stage)[0] == [(LEFT, 3), (LEFT, 3)]


def test_a_broker_after_a_controlled_shutdown_is_no_longer_listed() -> None:
    with Stage(3, voters=1) as stage:
        prepare(stage)
        stage.stop("n2")
        await_fencing(stage)
        assert ask(stage)[0] == [(LEFT, 3), (LEFT, 3)]
