from __future__ import annotations

from highwater.client.balance_plan import Held, Place
from highwater.client.balance_sight import Sight
from highwater.client.balance_watch import reason_to_act, reason_to_wait
from highwater.model import NodeId, TopicPartition


def sight(
    *partitions: tuple[tuple[int, ...], int], brokers: int = 3, moving: tuple[int, ...] = (), behind: int = 0
) -> Sight:
    held = {
        TopicPartition("t", index): Held(tuple(map(NodeId, replicas)), size)
        for index, (replicas, size) in enumerate(partitions)
    }
    leaders = {tp: each.replicas[0] for tp, each in held.items()}
    places = [Place(NodeId(broker)) for broker in range(1, brokers + 1)]
    return Sight(places, held, leaders, {}, {TopicPartition("t", each) for each in moving}, behind)


def test_nothing_moves_while_a_broker_is_down_or_behind_or_others_move() -> None:
    assert reason_to_wait(sight(((1, 2), 5), ((2, 3), 5))) is None
    assert reason_to_wait(sight(((1, 4), 5))) == "broker 4 is down"
    assert reason_to_wait(sight(((1, 4), 5), ((5, 1), 5))) == "brokers 4, 5 are down"
    assert reason_to_wait(sight(((1, 2), 5), moving=(0,))) == "1 partitions are moving already"
    assert reason_to_wait(sight(((1, 2), 5), behind=2)) == "2 partitions have replicas that are not in sync"


def test_a_broker_whose_bytes_deviate_by_more_than_the_threshold_is_a_reason_to_move() -> None:
    even = [((broker,), 10) for broker in (1, 2, 3) for _ in range(10)]
    assert reason_to_act(sight(*even), 25) is None
    fuller = [*even, ((1,), 10), ((2,), 10), ((3,), 40)]
    assert reason_to_act(sight(*fuller), 11) is None, "no more than the largest partition"
    skewed = [*((((1,), 10)) for _ in range(14)), *(((broker,), 10) for broker in (2, 3) for _ in range(8))]
    assert reason_to_act(sight(*skewed), 25) == "broker 1 has 40% more bytes than the mean"
    assert reason_to_act(sight(*skewed), 40) is None


def test_a_broker_without_replicas_is_a_reason_to_move() -> None:
    assert reason_to_act(sight(*[((1, 2), 10)] * 9), 25) == "broker 3 has 100% fewer bytes than the mean"


def test_a_broker_with_more_than_one_leader_too_many_is_a_reason_to_move() -> None:
    replicas = (((1, 2, 3), 10), ((1, 2, 3), 10), ((2, 1, 3), 10))
    assert reason_to_act(sight(*replicas), 25) is None
    assert reason_to_act(sight(*replicas, ((1, 2, 3), 10), ((1, 2, 3), 10), ((1, 2, 3), 10)), 25) == (
        "broker 1 has 150% more leaders than the mean"
    )


def test_a_cluster_without_topics_is_even() -> None:
    assert reason_to_act(sight(), 25) is None
