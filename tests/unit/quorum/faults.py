"""What happens to a cluster: a seeded schedule of faults, then healing, then the proof that it lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from highwater.quorum import Role, Timing
from tests.unit.quorum.cluster import World
from tests.unit.quorum.node import CRASH_POINTS, Node

TROUBLE = 6.0
"""Seconds of faults."""
RECOVERY = 10.0
"""Seconds after healing within which a leader must commit on all nodes: several of the longest timeouts."""
SWIFT = Timing(
    election_timeout=0.1,
    fetch_timeout=0.2,
    election_backoff_max=0.1,
    request_timeout=0.2,
    retry_backoff=0.01,
    prompt_election=0.02,
)
"""Ten times Kafka's pace, near the network's delays: many elections in a short time, and many that meet."""


class NotLive(AssertionError):
    """The healed cluster has not come to work again in time."""


def isolate(world: World, node: Node) -> None:
    for other in world.nodes:
        if other != node.id:
            world.cuts |= {(node.id, other), (other, node.id)}


def cut_link(world: World, node: Node) -> None:
    other = world.random.choice([other for other in world.nodes if other != node.id])
    world.cuts.add((node.id, other))
    if world.random.random() < 0.5:
        world.cuts.add((other, node.id))


def split(world: World, node: Node) -> None:
    side = {node.id, *world.random.sample(sorted(world.nodes), len(world.nodes) // 2)}
    world.cuts |= {(a, b) for a in world.nodes for b in world.nodes if (a in side) != (b in side)}


def heal(world: World, node: Node) -> None:
    world.cuts.clear()


def crash_now(world: World, node: Node) -> None:
    world.crash(node)


def crash_within_a_step(world: World, node: Node) -> None:
    node.crash_in = world.random.randrange(CRASH_POINTS * 3)


def crash_everybody(world: World, node: Node) -> None:
    for one in world.node_list():
        world.crash(one)


def pause(world: World, node: Node) -> None:
    node.pause()
    life = node.life
    world.later(world.random.uniform(0.1, 4.0), lambda: node.resume() if node.life == life else None)


def snapshot(world: World, node: Node) -> None:
    if node.is_up:
        node.take_snapshot()


def resign(world: World, node: Node) -> None:
    if node.is_up and not node.is_paused:
        node.guarded(lambda: node.feed(lambda quorum: quorum.resign(quorum.epoch, world.now)))()


def prove_leader_dead(world: World, node: Node) -> None:
    """Right or wrong: the proof only lets pre-votes through, so it must never cost safety."""
    if node.is_up and not node.is_paused and node.running.leader_id is not None:
        leader, epoch = node.running.leader_id, node.epoch
        node.guarded(lambda: node.feed(lambda quorum: quorum.leader_is_dead(leader, epoch, world.now)))()


FAULTS: tuple[tuple[int, Callable[[World, Node], None]], ...] = (
    (3, isolate),
    (3, cut_link),
    (2, split),
    (4, heal),
    (4, crash_now),
    (5, crash_within_a_step),
    (1, crash_everybody),
    (2, pause),
    (2, snapshot),
    (1, resign),
    (2, prove_leader_dead),
)


def trouble(world: World) -> None:
    """Faults and client writes until `TROUBLE`; nodes that crashed come back after a while."""
    world.loss = world.random.choice((0.0, 0.02, 0.1))
    unit = world.timing.election_timeout
    pace = world.random.choice((0.15, 0.3, 0.6)) * unit
    kings_die_young = world.random.choice((0.0, 0.0, 0.8))
    faults = [fault for weight, fault in FAULTS for _ in range(weight)]
    seen: set[tuple[int, int]] = set()

    def strike() -> None:
        if world.now >= TROUBLE:
            return
        leaders = [node for node in world.node_list() if node.is_up and node.role == Role.LEADER]
        aim_at_leader = leaders and world.random.random() < 0.5
        world.random.choice(faults)(world, world.random.choice(leaders if aim_at_leader else world.node_list()))
        for node in world.node_list():
            if not node.is_up:
                world.start_soon(node, world.random.uniform(0.0, 2 * unit))
        world.later(world.random.expovariate(1 / pace), strike)

    def lurk() -> None:
        """New leaders are the most delicate: strike them soon after their election."""
        if world.now >= TROUBLE:
            return
        for node in world.node_list():
            if node.is_up and node.role == Role.LEADER and (node.id, node.epoch) not in seen:
                seen.add((node.id, node.epoch))
                if world.random.random() < kings_die_young:
                    world.crash_soon(node, before=TROUBLE)
        world.later(0.01, lurk)

    world.later(world.random.uniform(0, unit), strike)
    if kings_die_young:
        world.later(0, lurk)
    keep_writing(world)
    world.run_until(TROUBLE)


def keep_writing(world: World) -> None:
    written = 0

    def write() -> None:
        nonlocal written
        for node in world.node_list():
            if node.is_up and not node.is_paused and node.role == Role.LEADER:
                written += 1
                node.guarded(partial(node.write_as_client, f"v{written}"))()
        world.later(world.random.uniform(0.05, 0.2), write)

    world.later(0, write)


def recover(world: World) -> float:
    """Heal all, start all; returns the seconds until one leader has committed an entry of its epoch everywhere."""
    world.cuts.clear()
    world.loss = 0.0
    for node in world.node_list():
        node.crash_in = None
        node.resume()
        world.start(node)
    began = world.now
    if not world.run_until(began + RECOVERY, lambda: all_follow_one_leader(world)):
        states = [(node.id, node.role.value, node.epoch, node.high_watermark) for node in world.node_list()]
        raise NotLive(f"{RECOVERY} s after healing: {states}")
    return world.now - began


def all_follow_one_leader(world: World) -> bool:
    nodes = world.node_list()
    leaders = [node for node in nodes if node.role == Role.LEADER]
    if len(leaders) != 1 or any(node.running.leader_id != leaders[0].id for node in nodes):
        return False
    start = next((offset for offset, entry in enumerate(leaders[0].log) if entry.epoch == leaders[0].epoch), None)
    return start is not None and all((node.high_watermark or 0) > start for node in nodes)


def ordeal(world: World) -> float:
    """The whole story of one seed."""
    world.start_all()
    trouble(world)
    return recover(world)
