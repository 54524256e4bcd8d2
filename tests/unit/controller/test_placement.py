from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from typing import Any

import pytest

from highwater.controller.brokers import fence_broker
from highwater.controller.partitions import create_partitions
from highwater.controller.placement import UsableBroker, place, usable_brokers
from highwater.controller.topics import create_topics
from highwater.errors import Code, KafkaError
from highwater.metadata.pieces import whole
from highwater.model import NodeId
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.unit.controller.clusters import EMPTY, epoch, node_config, nodes, registered, then

CONFIG = node_config()


def shape(racks: tuple[str | None, ...], fenced: int = 0) -> list[UsableBroker]:
    """Brokers 1, 2, … in these racks, the last `fenced` of them fenced."""
    count = len(racks)
    return [UsableBroker(NodeId(n + 1), rack, n >= count - fenced) for n, rack in enumerate(racks)]


SHAPES = [
    (racks, fenced, factor)
    for count in range(1, 7)
    for racks in {tuple(sorted(x, key=str)) for x in product(("a", "b", "c", None), repeat=count)}
    for fenced in range(count)
    for factor in range(1, min(count, 4) + 1)
]


def test_every_small_shape_places_as_kafka_promises() -> None:
    random = Random(7)
    for racks, fenced, factor in SHAPES:
        brokers = shape(racks, fenced)
        rack_of = {broker.id: broker.rack for broker in brokers}
        is_fenced = {broker.id: broker.fenced for broker in brokers}
        live = [broker for broker in brokers if not broker.fenced]
        assigned = list(place(brokers, 2 * len(live), factor, random))
        for replicas in assigned:
            assert len(set(replicas)) == factor == len(replicas)
            assert not is_fenced[replicas[0]]
            spread = Counter(rack_of[replica] for replica in replicas)
            in_rack = Counter(racks)
            assert len(spread) == min(factor, len(in_rack)), (racks, fenced, replicas)
            for rack, used in spread.items():
                idle_elsewhere = any(spread[other] < used - 1 and spread[other] < in_rack[other] for other in in_rack)
                assert not idle_elsewhere, (racks, replicas, rack)


def test_the_loss_of_a_rack_loses_no_partition_created_at_first_or_added_later() -> None:
    for racks, fenced, factor in SHAPES:
        if fenced or factor == 1 or len(set(racks)) == 1:
            continue
        head = then(EMPTY, [registered(n + 1, rack) for n, rack in enumerate(racks)])
        first = CreatableTopic(name="t", num_partitions=3, replication_factor=factor)
        made = whole(create_topics(head, CreateTopicsRequest(topics=[first]), CONFIG, Random(len(racks))))
        head = then(head, made.records)
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=9, assignments=None)])
        head = then(head, whole(create_partitions(head, more, Random(factor))).records)
        assert len(head.topics.by_name["t"].partitions) == 9
        for failed in set(racks):
            after = head
            for broker in [n + 1 for n, rack in enumerate(racks) if rack == failed]:
                after = then(after, fence_broker(after, CONFIG, NodeId(broker), epoch(broker)))
            assert all(partition.has_leader for _, _, partition in after.topics.each_partition()), (racks, failed)


def test_leaders_are_even_where_racks_are_even_and_their_number_and_size_share_no_factor() -> None:
    # Kafka's rule steps racks and brokers at once: of two racks with two brokers each, only one of each would lead.
    for racks in [("a",) * 6, ("a", "b"), ("a", "b", "c"), ("a", "a", "b", "b", "c", "c")]:
        for seed in range(20):
            assigned = list(place(shape(racks), len(racks), min(3, len(racks)), Random(seed)))
            assert Counter(replicas[0] for replicas in assigned) == Counter(range(1, len(racks) + 1))


def test_successive_partitions_step_through_the_brokers() -> None:
    assigned = list(place(shape((None,) * 4), 4, 3, Random(0)))
    first = assigned[0][0]
    ring = [1, 2, 3, 4]
    for step, replicas in enumerate(assigned):
        start = (ring.index(first) + step) % 4
        assert replicas == nodes(*(ring[(start + n) % 4] for n in range(3)))


def test_after_as_many_partitions_as_unfenced_brokers_the_pattern_does_not_repeat() -> None:
    repeated = 0
    for seed in range(20):
        leaders = [replicas[0] for replicas in list(place(shape((None,) * 5), 10, 1, Random(seed)))]
        assert sorted(leaders[:5]) == sorted(leaders[5:]) == [1, 2, 3, 4, 5]
        repeated += leaders[:5] == leaders[5:]
    assert repeated < 3


def test_fenced_brokers_come_last() -> None:
    for seed in range(20):
        for replicas in list(place(shape(("a",) * 4, fenced=2), 8, 3, Random(seed))):
            assert set(replicas[:2]) == {1, 2}
            assert replicas[2] in (3, 4)


def test_one_unfenced_broker_leads_everything() -> None:
    assert list(place(shape((None, None), fenced=1), 5, 2, Random(0))) == [nodes(1, 2)] * 5


def test_placement_depends_on_the_random_it_is_given_alone() -> None:
    brokers = shape(("a", "a", "b", "b", "c"))
    assert list(place(brokers, 20, 3, Random(3))) == list(place(brokers[::-1], 20, 3, Random(3)))
    assert len({tuple(list(place(brokers, 20, 3, Random(seed)))) for seed in range(10)}) > 1


@pytest.mark.parametrize(
    ("brokers", "factor", "words"),
    [
        (shape(("a",) * 2), 3, "replication factor of 3 cannot be reached because only 2 broker"),
        (shape(("a",) * 2), 0, "Invalid replication factor 0"),
        (shape(("a",) * 2, fenced=2), 1, "All brokers are currently fenced"),
        ([], 1, "All brokers are currently fenced"),
    ],
)
def test_an_impossible_placement_is_refused(brokers: list[UsableBroker], factor: int, words: str) -> None:
    with pytest.raises(KafkaError, match=words) as caught:
        list(place(brokers, 1, factor, Random(0)))
    assert caught.value.code == Code.INVALID_REPLICATION_FACTOR


def test_brokers_that_are_leaving_or_take_no_replicas_are_not_usable() -> None:
    cordoned = registered(4)
    cordoned.cordoned_log_dirs = list(cordoned.log_dirs)
    image = then(
        EMPTY,
        [
            registered(1, rack="r"),
            registered(2, fenced=True),
            registered(3, shutting_down=True),
            cordoned,
            registered(5, shutting_down=True, fenced=True),
        ],
    )
    assert usable_brokers(image.brokers) == [
        UsableBroker(NodeId(1), "r", False),
        UsableBroker(NodeId(2), None, True),
        UsableBroker(NodeId(5), None, True),
    ]


class First:
    """A die that always shows the first side, and leaves what it shuffles as it is."""

    def randrange(self, stop: int) -> int:
        return 0

    def shuffle(self, x: list[int]) -> None: ...


def test_the_first_partition_is_led_by_the_broker_that_was_drawn() -> None:
    assert list(place(shape((None,) * 3), 4, 2, First())) == [nodes(1, 2), nodes(2, 3), nodes(3, 1), nodes(1, 2)]
    assert list(place(shape(("a", "b", "b")), 2, 2, First())) == [nodes(1, 2), nodes(3, 1)]


def test_racks_come_in_the_order_of_their_names_and_those_without_a_name_first() -> None:
    assert list(place(shape(("b", "a")), 2, 1, First())) == [nodes(2), nodes(1)]
    assert list(place(shape(("b", "a", None)), 1, 3, First())) == [nodes(3, 2, 1)]


class Reversing(First):
    """Shuffles by turning round."""

    def shuffle(self, x: list[int]) -> None:
        x.reverse()


def test_racks_and_their_brokers_are_shuffled_once_each_broker_has_led() -> None:
    leaders = [replicas[0] for replicas in place(shape(("a", "a", "b", "b")), 8, 1, Reversing())]
    assert sorted(leaders[:4]) == sorted(leaders[4:]) == [1, 2, 3, 4]
    racks = ["a" if leader < 3 else "b" for leader in leaders]
    assert racks == ["a", "b", "a", "b", "b", "a", "b", "a"]


class Counting(Random):
    shuffles = 0

    def shuffle(self, x: Any) -> None:
        self.shuffles += 1
        super().shuffle(x)


@pytest.mark.parametrize(("partitions", "rounds"), [(3, 0), (4, 1), (6, 1), (7, 2), (10, 3)])
def test_the_order_is_drawn_anew_after_as_many_partitions_as_there_are_leaders(partitions: int, rounds: int) -> None:
    random = Counting(1)
    list(place(shape(("a", "a", "a")), partitions, 2, random))
    before = Counting(1)
    list(place(shape(("a", "a", "a")), 1, 2, before))
    of_a_round = 3  # the racks, and in the one that there is the unfenced and the fenced
    assert random.shuffles - before.shuffles == rounds * of_a_round
