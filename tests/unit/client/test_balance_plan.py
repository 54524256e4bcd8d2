"""Plans that even out bytes, replicas and leaders: by example, and over random clusters."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from highwater.client.balance_plan import TOLERANCE, Balance, CannotDrain, Held, Place, plan
from highwater.model import NodeId, TopicPartition

Partitions = dict[TopicPartition, Held]


def place(broker: int, rack: str | None = None) -> Place:
    return Place(NodeId(broker), rack)


def held(*rows: tuple[list[int], int]) -> Partitions:
    return {
        TopicPartition("t", index): Held(tuple(map(NodeId, replicas)), size)
        for index, (replicas, size) in enumerate(rows)
    }


def after(partitions: Partitions, balance: Balance) -> Partitions:
    return {tp: Held(balance.targets.get(tp, each.replicas), each.size) for tp, each in partitions.items()}


def bytes_of(partitions: Partitions) -> Counter[int]:
    found: Counter[int] = Counter()
    for each in partitions.values():
        for broker in each.replicas:
            found[broker] += each.size
    return found


def leaders(partitions: Partitions) -> Counter[int]:
    return Counter(each.replicas[0] for each in partitions.values())


def test_a_cluster_that_is_even_needs_no_plan() -> None:
    even = held(([1, 2], 100), ([2, 3], 100), ([3, 1], 100))
    assert plan(even, [place(1), place(2), place(3)]) == Balance({}, 0, 0)


def test_a_new_broker_gets_its_share_and_no_more_is_moved_than_the_others_have_too_much() -> None:
    before = held(*[([1, 2], 100)] * 6)
    balance = plan(before, [place(1), place(2), place(3)])
    now = after(before, balance)
    assert bytes_of(now) == {1: 400, 2: 400, 3: 400}
    assert (balance.moved_bytes, balance.exact_bytes) == (400, 400)
    assert set(leaders(now).values()) == {2}


def test_a_drained_broker_has_nothing_left_and_its_replicas_go_to_the_emptiest() -> None:
    before = held(([1, 2], 300), ([2, 3], 100), ([3, 1], 100), ([1, 2], 50))
    balance = plan(before, [place(1), place(2), place(3), place(4)], [NodeId(1)])
    now = after(before, balance)
    assert 1 not in bytes_of(now)
    assert balance.exact_bytes >= 450
    assert bytes_of(now)[4] >= 300


def test_a_broker_whose_replicas_have_nowhere_to_go_is_not_drained() -> None:
    with pytest.raises(CannotDrain, match="t-0 has no broker to go to from broker 1"):
        plan(held(([1, 2], 1)), [place(1), place(2)], [NodeId(1)])


def test_a_replica_is_not_moved_if_its_partition_would_have_fewer_racks() -> None:
    places = [place(1, "a"), place(2, "b"), place(3, "b")]
    before = held(([1, 2], 100), ([1, 2], 100))
    balance = plan(before, places)
    assert all(NodeId(1) in each.replicas for each in after(before, balance).values())
    with pytest.raises(CannotDrain):
        plan(before, places, [NodeId(1)])


def test_small_replicas_are_spread_by_their_number() -> None:
    before = held(*[([1], 0)] * 9)
    balance = plan(before, [place(1), place(2), place(3)])
    assert Counter(each.replicas[0] for each in after(before, balance).values()) == {1: 3, 2: 3, 3: 3}
    assert balance.moved_bytes == 0


def test_leadership_goes_along_a_chain_where_no_partition_joins_both_ends() -> None:
    singles = [([1], 1)] * 3 + [([3], 1)] * 3
    before = held(([1, 2], 1), ([1, 2], 1), ([2, 1], 1), *[([2, 3], 1)] * 3, *singles)
    assert leaders(before) == {1: 5, 2: 4, 3: 3}
    balance = plan(before, [place(1), place(2), place(3)])
    assert (set(leaders(after(before, balance)).values()), balance.moved_bytes) == ({4}, 0)


def test_the_largest_replica_that_fits_moves_rather_than_many_small_ones() -> None:
    before = held(([1], 400), *[([1], 40)] * 10)
    balance = plan(before, [place(1), place(2)])
    assert bytes_of(after(before, balance)) == {1: 400, 2: 400}
    assert list(balance.targets) == [TopicPartition("t", 0)]


def test_a_replica_on_a_broker_that_is_gone_stays_where_it_is() -> None:
    before = held(([1, 9], 100), ([2, 9], 100))
    balance = plan(before, [place(1), place(2)])
    assert all(NodeId(9) in each.replicas for each in after(before, balance).values())


@pytest.mark.parametrize("seed", range(40))
def test_any_cluster_is_even_afterwards_with_no_fewer_racks_and_no_broker_twice(seed: int) -> None:
    random = Random(seed)
    brokers = range(1, random.randint(4, 9))
    racks = random.choice([[None], ["a", "b", "c"]])
    places = [place(broker, racks[broker % len(racks)]) for broker in brokers]
    rack_of = {each.id: each.rack for each in places}
    older = list(brokers)[: max(3, len(brokers) - random.randint(0, 3))]
    before = held(
        *[
            (random.sample(older, random.choice((2, 3, 3))), int(random.expovariate(1 / 1000)))
            for _ in range(random.randint(5, 80))
        ]
    )
    drained = [NodeId(older[-1])] if seed % 3 == 0 and len(brokers) > 5 and racks == [None] else []
    balance = plan(before, places, drained)
    now = after(before, balance)
    for tp, each in now.items():
        assert len(set(each.replicas)) == len(before[tp].replicas)
        assert len({rack_of[b] for b in each.replicas}) >= len({rack_of[b] for b in before[tp].replicas})
    assert not set(bytes_of(now)) & set(drained)
    moved = sum(each.size * len(set(each.replicas) - set(before[tp].replicas)) for tp, each in now.items())
    assert moved == balance.moved_bytes
    if racks == [None]:
        left = [broker for broker in brokers if broker not in drained]
        mean = sum(bytes_of(now).values()) / len(left)
        slack = max(mean * TOLERANCE, *(each.size for each in before.values()))
        assert all(abs(bytes_of(now)[broker] - mean) <= slack for broker in left)
    counts = [leaders(now)[broker] for broker in brokers if broker not in drained and bytes_of(now)[broker]]
    if racks == [None] and len(before) > 3 * len(brokers):
        assert max(counts) - min(counts) <= 1
