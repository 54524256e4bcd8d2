"""How the quorum machine is driven: one input at a time, each carried out to its end."""

from __future__ import annotations

from highwater.quorum import Ready
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
