"""The brokers that Metadata lists though they were just fenced."""

from __future__ import annotations

from collections.abc import Collection

from highwater.broker.departed import RECENT_SECONDS, Departed
from highwater.model import NodeId
from highwater.sim import Simulation

FENCED = NodeId(3)


class Connection:
    pass


def listed(departed: Departed) -> list[list[NodeId]]:
    """The fenced brokers in the responses to two requests that one client sends at once; those that are sent now."""
    found: list[list[NodeId]] = []

    def respond(brokers: Collection[NodeId]) -> None:
        found.append(list(brokers))

    client = Connection()
    departed.asked(client)  # type: ignore[arg-type]
    departed.asked(client)  # type: ignore[arg-type]
    departed.answer(client, respond)  # type: ignore[arg-type]
    departed.answer(client, respond)  # type: ignore[arg-type]
    return found


def test_a_broker_that_is_fenced_again_is_listed_for_the_whole_time_after_the_second_fencing() -> None:
    sim = Simulation(1)
    world = sim.world("broker")
    departed = Departed(world.clock)
    begun = world.clock.monotonic()

    def pass_time(until: float) -> None:
        world.clock.call_later(until - (world.clock.monotonic() - begun), lambda: None)
        sim.run(sim.until(lambda: world.clock.monotonic() - begun >= until, limit=1))

    world.call(departed.note, FENCED)
    pass_time(0.6 * RECENT_SECONDS)
    world.call(departed.note, FENCED)
    pass_time(1.2 * RECENT_SECONDS)
    assert world.call(listed, departed)[:1] == [[FENCED]]
    pass_time(1.7 * RECENT_SECONDS)
    assert world.call(listed, departed) == [[], []]
