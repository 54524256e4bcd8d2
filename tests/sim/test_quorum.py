"""Three and five voters through crashes, cuts, loss and pauses: every invariant after every event, then liveness."""

from __future__ import annotations

from functools import partial

import pytest

from highwater.model import NodeId
from highwater.quorum import Role
from tests.unit.quorum.cluster import World
from tests.unit.quorum.faults import SWIFT, all_follow_one_leader, keep_writing, ordeal


@pytest.mark.parametrize("block", range(6))
def test_three_voters_keep_every_promise_through_every_fault(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        ordeal(World(seed, 3))


@pytest.mark.parametrize("block", range(4))
def test_three_voters_keep_every_promise_at_a_pace_at_which_elections_collide(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        ordeal(World(seed, 3, SWIFT))


@pytest.mark.parametrize("block", range(4))
def test_five_voters_keep_every_promise_through_every_fault(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        ordeal(World(seed, 5, SWIFT if seed % 2 else None))


def test_one_seed_tells_one_story() -> None:
    def story(seed: int) -> tuple[object, ...]:
        world = World(seed, 3)
        return ordeal(world), world.events, world.now, tuple(world.watch.committed.entries)

    assert story(7) == story(7)
    assert story(7) != story(8)


def calm_cluster(seed: int) -> World:
    world = World(seed, 3)
    world.is_calm = True
    world.start_all()
    assert world.run_until(10.0, lambda: all_follow_one_leader(world))
    return world


def test_a_fresh_cluster_elects_its_first_leader_without_waiting_for_a_timeout() -> None:
    assert max(calm_cluster(seed).now for seed in range(100)) < 0.2


def seconds_to_replace_a_dead_leader(seed: int) -> float:
    world = calm_cluster(seed)
    keep_writing(world)
    world.run_until(world.now + 1.0)
    leader = next(node for node in world.node_list() if node.role == Role.LEADER)
    others = [node for node in world.node_list() if node is not leader]
    died, leader_id, epoch = world.now, NodeId(leader.id), leader.epoch
    world.crash(leader)
    for node in others:
        proof = partial(node.feed, lambda quorum: quorum.leader_is_dead(leader_id, epoch, world.now))
        world.later(world.random.uniform(0.005, 0.03), node.guarded(proof))
    assert world.run_until(died + 10.0, lambda: any(node.role == Role.LEADER for node in others))
    return world.now - died


def test_a_leader_that_is_proved_dead_is_replaced_long_before_its_fetch_timeout() -> None:
    assert max(seconds_to_replace_a_dead_leader(seed) for seed in range(100)) < 0.2
