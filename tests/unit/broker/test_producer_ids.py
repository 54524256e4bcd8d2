"""Ids for idempotent producers: at once, or not yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.producer_ids import ProducerIds
from highwater.errors import Code, code_of
from highwater.model import NodeId
from highwater.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse
from tests.scenarios.stage import Stage

BLOCK = 1000


async def init(stage: Stage, node: str) -> tuple[Code, int]:
    request = InitProducerIdRequest(transactional_id=None)
    answer = await stage.client.ask(node, request, InitProducerIdResponse)
    return code_of(answer.error_code), answer.producer_id


def take(stage: Stage, node: str, count: int) -> list[int | None]:
    living = stage.node(node)
    assert living.broker is not None
    ids = living.broker.producer_ids
    return [living.world.call(ids.take) for _ in range(count)]  # type: ignore[attr-defined]


def test_a_broker_that_serves_has_ids_at_hand_and_asks_for_more_before_they_are_used_up() -> None:
    with Stage(1) as stage:
        stage.pass_time(0.1)
        code, first = stage.run(init(stage, "n1"))
        assert code is Code.NONE
        given = take(stage, "n1", BLOCK - 2)
        assert given == list(range(first + 1, first + BLOCK - 1))
        stage.pass_time(0.1)
        more = take(stage, "n1", BLOCK)
        assert None not in more and len({first, *given, *more}) == 2 * BLOCK - 1


def test_a_broker_that_is_cut_off_and_has_no_ids_left_says_so_at_once_and_gives_some_when_it_is_back() -> None:
    with Stage(2) as stage:
        stage.pass_time(0.1)
        stage.cut("n1", "n2")
        left = take(stage, "n2", BLOCK + 10)
        assert left[-1] is None and None not in left[:BLOCK]
        began = stage.now
        assert stage.run(init(stage, "n2")) == (Code.COORDINATOR_LOAD_IN_PROGRESS, -1)
        assert stage.now - began < 0.1
        stage.heal()
        stage.until(lambda: stage.serves("n2"))
        stage.pass_time(5.0)
        code, producer_id = stage.run(init(stage, "n2"))
        assert code is Code.NONE and producer_id not in left


class Forgetful:
    """A controller that allocates the same block again: an earlier state of its metadata came back."""

    def __init__(self, *starts: int) -> None:
        self.starts = list(starts)

    def ask(self, request: Any, response: Any, done: Callable[[Any], None], seconds: float) -> None:
        done(AllocateProducerIdsResponse(producer_id_start=self.starts.pop(0), producer_id_len=10))


def test_a_block_that_was_allocated_before_is_not_used_again() -> None:
    """Two clients with one id would take each other's batches for repeated ones."""
    now = [0.0]
    controller = cast(ControllerChannel, Forgetful(0, 0, 5, 10))
    ids = ProducerIds(NodeId(1), controller, lambda: 1, lambda: now[0])
    ids.prefetch()
    assert [ids.take() for _ in range(10)] == list(range(10))
    assert ids.take() is None
    now[0] += 1.0
    assert ids.take() is None, "the block from 5 on is refused, too"
    now[0] += 1.0
    assert [ids.take() for _ in range(3)] == [None, 10, 11]
