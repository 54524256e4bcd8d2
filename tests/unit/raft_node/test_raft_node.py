"""How the quorum machine is driven: one input at a time, each carried out to its end."""

from __future__ import annotations

import asyncio

from highwater.metadata.records import encode
from highwater.quorum import Ready
from highwater.raft_node.inputs import MOST_WAITING
from highwater.wire.messages.no_op_record import NoOpRecord
from tests.unit.broker.living import Living


def test_an_input_waits_until_the_input_that_caused_it_is_carried_out() -> None:
    """Or what the first one asks for would be done after what the second one does, which came later."""
    with Living().start() as living:
        raft, order = living.node.raft, list[str]()

        def second(now: float) -> Ready:
            order.append("the second is taken")
            return Ready()

        def answer(response: object) -> None:
            order.append("the first is answered")
            raft._inputs.feed(second)
            order.append("the rest of the first")

        living.world.call(raft._inputs.feed, lambda now: Ready(), answer)
        assert order == ["the first is answered", "the rest of the first", "the second is taken"]


def test_decisions_that_are_appended_meanwhile_push_no_request_of_a_peer_out() -> None:
    """While much that was committed is applied, requests of peers wait, and so does the news of what was appended."""
    with Living().start() as living:
        raft, record, given_up = living.node.raft, NoOpRecord(), list[bool]()
        is_applied = asyncio.Event()

        async def applying() -> None:
            await is_applied.wait()

        living.world.call(raft._inputs.block, applying)
        living.world.call(raft._inputs.feed, lambda now: Ready(), None, lambda: given_up.append(True))
        for _ in range(2 * MOST_WAITING):
            living.world.call(raft.append, [record], [encode(record)], raft.epoch)
        end = raft.log_end
        is_applied.set()
        living.sim.run(living.sim.until(lambda: raft.high_watermark >= end))
        assert not given_up
