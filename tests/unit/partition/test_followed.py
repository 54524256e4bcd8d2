"""One partition as a fetcher follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.partition.followed import Followed
from highwater.partition.partition import Partition
from highwater.replication.follower import Follower, State
from tests.unit.log.bench import Bench, append, batch
from tests.unit.partition.hosting import played


@pytest.mark.parametrize(
    ("offset", "said"),
    [(2, "cut from 3 to 2, 1 records: why"), (0, "cut from 3 to 0, 3 records, 2 of them committed: why")],
)
def test_a_cut_is_logged_with_what_it_removes(tmp_path: Path, offset: int, said: str) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        append(partition.log, batch((b"a", b"b", b"c")))
        partition.log.move_high_watermark(2)
        assert Followed(partition, 1.0).describe_cut(offset, "why") == said

    played(tmp_path, play)


def test_a_mistake_over_one_partition_is_stopped_and_it_is_fetched_again_later(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        followed = Followed(partition, 1.0)
        again: list[Followed] = []
        boundary = followed.boundary(again.append)
        assert followed.boundary(again.append) is boundary, "it is made once"
        with boundary:
            raise ValueError("a mistake")
        assert again == [followed]
        assert partition.log.failures.counts["partition"] == 1

    played(tmp_path, play)


def test_a_cut_that_failed_ends_the_following_unless_it_was_of_another_role(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        followed = Followed(partition, 1.0)
        followed.cut_failed()
        assert followed.machine.fetches
        followed.machine = Follower(3, 1.0, is_being_cut=True)
        followed.cut_failed()
        assert followed.machine.state is State.PARKED

    played(tmp_path, play)
