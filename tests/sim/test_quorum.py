"""Three and five voters through crashes, cuts, loss and pauses: every invariant after every event, then liveness."""

from __future__ import annotations

from functools import partial

import pytest

from highwater.model import NodeId
from highwater.quorum import Role
from tests.unit.quorum.cluster import World
from tests.unit.quorum.faults import SWIFT, all_follow_one_leader, isolate, keep_writing, ordeal
from tests.unit.quorum.node import Node


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
    for seed in range(block * 15, block * 15 + 15):
        ordeal(World(seed, 5, SWIFT if seed % 2 else None))


def test_one_seed_gives_one_history_of_the_quorum() -> None:
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


def leader_of(world: World) -> Node:
    [leader] = [node for node in world.node_list() if node.role == Role.LEADER]
    return leader


def test_a_voter_that_was_cut_off_comes_back_without_disturbing_the_leader() -> None:
    for seed in range(10):
        world = calm_cluster(seed)
        keep_writing(world)
        leader = leader_of(world)
        epoch, lost = leader.epoch, next(node for node in world.node_list() if node is not leader)
        isolate(world, lost)
        world.run_until(world.now + 10.0)
        assert lost.role in (Role.PROSPECTIVE, Role.FOLLOWER)
        world.cuts.clear()
        world.run_until(world.now + 5.0)
        assert {(node.epoch, node.running.leader_id) for node in world.node_list()} == {(epoch, leader.id)}


def test_a_leader_cut_off_from_its_majority_resigns_and_its_tail_gives_way() -> None:
    for seed in range(10):
        world = calm_cluster(seed)
        keep_writing(world)
        old = leader_of(world)
        isolate(world, old)
        world.run_until(world.now + 3.2)
        assert old.role != Role.LEADER
        tail = old.log[len(world.watch.committed.entries) :]
        assert world.run_until(world.now + 5.0, lambda world=world: leader_of(world) is not None)  # type: ignore[misc]
        world.cuts.clear()
        world.run_until(world.now + 5.0)
        assert all_follow_one_leader(world)
        assert tail and not set(tail) & set(old.log)


def seconds_to_replace_a_dead_leader(seed: int) -> float:
    world = calm_cluster(seed)
    keep_writing(world)
    world.run_until(world.now + 1.0)
    leader = leader_of(world)
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
