"""Fetches of followers are recorded where somebody looks, in a bounded number, and for a bounded time."""

from __future__ import annotations

from typing import cast

from highwater.broker.follower_fetches import KEPT, MOST_WATCHED, WATCHED_SECONDS, FollowerFetches
from highwater.partition.partition import Partition


class Scene:
    """The record looks at no more of a partition than which one it is."""

    def __init__(self) -> None:
        self.now = 100.0
        self.fetches = FollowerFetches(lambda: self.now)

    @staticmethod
    def partition() -> Partition:
        return cast(Partition, object())


def test_a_partition_is_recorded_from_the_first_question_on() -> None:
    scene, watched = Scene(), Scene.partition()
    scene.fetches.note(watched, 2, 5, 5, 70)
    assert scene.fetches.of(watched) == [] and list(scene.fetches.watched) == [watched]
    scene.fetches.note(watched, 2, 6, 5, 0)
    scene.fetches.note(Scene.partition(), 3, 1, 1, 0)
    scene.now += 0.5
    assert scene.fetches.of(watched) == [
        {"seconds_ago": 0.5, "follower": 2, "offset": 6, "high_watermark": 5, "bytes": 0}
    ]


def test_only_the_last_ones_are_kept() -> None:
    scene, watched = Scene(), Scene.partition()
    scene.fetches.of(watched)
    for offset in range(KEPT + 5):
        scene.fetches.note(watched, 2, offset, offset, 1)
    assert [row["offset"] for row in scene.fetches.of(watched)] == list(range(5, KEPT + 5))


def test_a_partition_that_nobody_asks_for_any_more_is_forgotten() -> None:
    scene, left, watched = Scene(), Scene.partition(), Scene.partition()
    scene.fetches.of(left)
    scene.now += WATCHED_SECONDS - 1
    scene.fetches.of(watched)
    scene.now += 2
    scene.fetches.of(watched)
    assert list(scene.fetches.watched) == [watched]


def test_the_number_of_watched_partitions_is_bounded() -> None:
    scene = Scene()
    partitions = [Scene.partition() for _ in range(MOST_WATCHED + 10)]
    for each in partitions:
        scene.fetches.of(each)
    assert len(scene.fetches.watched) <= MOST_WATCHED + 1 and partitions[-1] in scene.fetches.watched
