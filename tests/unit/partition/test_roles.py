"""The roles of a replica: what it knows in each, which callers are answered when it changes, and what it counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from highwater.errors import Code
from highwater.model import NO_NODE
from highwater.partition.fetch_session import FetchSession
from highwater.partition.fetching import Reader
from highwater.partition.followed import Followed
from highwater.partition.partition import REMEMBERED, Partition
from highwater.replication.follower import Ready
from tests.unit.log.bench import Bench, batch, on_real_disk, until
from tests.unit.partition.hosting import (
    ALL,
    BROKER_EPOCH,
    ME,
    OTHER,
    Noted,
    alone,
    code_of,
    entry_at,
    played,
    read,
    write,
)

# What it knows


def test_a_replica_without_a_role_knows_no_leader_and_no_epoch(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        partition = Partition(await bench.create(), alone())
        assert (partition.leader_id, partition.epoch, partition.partition_epoch) == (NO_NODE, -1, -1)
        assert not partition.has_leader_high_watermark, "it has heard from no leader"
        assert not partition.is_being_cut
        partition.tick()
        partition.brokers_changed({})
        partition.reconfigure(bench.config)

    on_real_disk(tmp_path, play)


def test_each_role_brings_its_leader_its_epochs_and_its_replicas(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        def known() -> tuple[object, ...]:
            return partition.leader_id, partition.epoch, partition.partition_epoch, partition.replicas

        assert known() == (ME, 3, 0, ALL)
        partition.lead(ME, 3, 1, (ME, OTHER), (ME, OTHER), {})
        assert known() == (ME, 3, 1, (ME, OTHER))
        partition.step_down(OTHER, 4, 2, ALL)
        assert known() == (OTHER, 4, 2, ALL)
        partition.step_down(NO_NODE, 5, 3, ALL)
        assert known() == (NO_NODE, 5, 3, ALL)
        assert partition.changes[-1][1].startswith("has no leader in epoch 5, ")
        partition.lead(ME, 6, 4, ALL, ALL, {})
        assert known() == (ME, 6, 4, ALL)

    played(tmp_path, play, isr=ALL)


def test_a_follower_has_everything_committed_only_by_its_leaders_high_watermark_of_this_epoch(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        partition.step_down(OTHER, 4, 1, ALL)
        assert not partition.has_leader_high_watermark
        partition.follow_up(0, Ready())
        assert partition.has_leader_high_watermark, "nothing is committed"
        partition.append_fetched(memoryview(batch()))
        partition.follow_up(1, Ready())
        assert partition.has_leader_high_watermark
        partition.follow_up(2, Ready())
        assert not partition.has_leader_high_watermark
        partition.follow_up(1, Ready())
        partition.step_down(OTHER, 5, 2, ALL)
        assert not partition.has_leader_high_watermark, "this leader has said nothing yet"
        partition.follow_up(1, Ready())
        partition.lead(ME, 6, 3, ALL, ALL, {})
        assert not partition.has_leader_high_watermark, "it follows nobody"

    played(tmp_path, play, isr=ALL)


def test_a_leader_knows_its_end_when_what_earlier_leaders_wrote_is_committed(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        assert partition.knows_its_end, "there is nothing"
        write(partition, b"a", acks=1)
        assert partition.knows_its_end, "it is all its own"
        partition.lead(ME, 4, 1, ALL, (ME, OTHER), {})
        assert not partition.knows_its_end
        partition.lead(ME, 4, 2, ALL, (ME,), {})
        assert (partition.log.high_watermark, partition.knows_its_end) == (1, True)
        partition.step_down(OTHER, 5, 3, ALL)
        assert not partition.knows_its_end

    played(tmp_path, play, isr=(ME, OTHER))


def test_the_only_copy_is_that_of_a_leader_alone_in_its_isr(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        for isr, only in (((ME,), True), ((ME, OTHER), False)):
            partition.lead(ME, 3, len(isr), ALL, isr, {})
            assert partition.log.is_only_copy() is only
        partition.step_down(OTHER, 4, 3, ALL)
        assert not partition.log.is_only_copy(), "it follows another"

    played(tmp_path, play, isr=ALL)


def test_a_partition_remembers_its_last_state_changes(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        for number in range(REMEMBERED + 3):
            partition.log_change(f"change {number}")
        assert [what for _, what in partition.changes] == [f"change {number}" for number in range(3, REMEMBERED + 3)]

    played(tmp_path, play)


# Watchers that are notified


def test_readers_and_followers_look_again_when_the_role_changes(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        reader, follower = Noted(), Noted()

        def calls() -> tuple[list[str], list[str]]:
            return reader.taken(), follower.taken()

        partition.watch(follower, follower=True)
        for change in (
            lambda: partition.lead(ME, 3, 1, ALL, ALL, {}),
            lambda: partition.lead(ME, 4, 2, ALL, ALL, {}),
            lambda: partition.step_down(OTHER, 5, 3, ALL),
            partition.failed,
            partition.close,
        ):
            partition.watch(reader)
            change()
            assert calls() == (["marked"], ["marked"]), change
        partition.unwatch(follower)
        partition.close()
        assert calls() == ([], []), "one reads no more, the other has not looked since"

    played(tmp_path, play, isr=ALL)


@pytest.mark.parametrize(
    ("is_deleted", "code"), [(False, Code.NOT_LEADER_OR_FOLLOWER), (True, Code.UNKNOWN_TOPIC_OR_PARTITION)]
)
def test_writes_that_wait_look_for_the_leader_unless_the_topic_is_deleted(
    tmp_path: Path, is_deleted: bool, code: Code
) -> None:
    """With the other error an idempotent producer would number what the next leader has already anew."""

    async def play(bench: Bench, partition: Partition) -> None:
        answers: list[Code] = []
        write(partition, acks=-1)
        partition.when_committed(partition.log.log_end, answers.append)
        partition.close(is_deleted)
        assert answers == [code]
        partition.when_committed(1, answers.append)
        assert answers[1:] == [Code.NOT_LEADER_OR_FOLLOWER]

    played(tmp_path, play, isr=ALL)


def test_followers_are_marked_by_what_is_written_and_readers_by_what_is_committed(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        reader, follower = Noted(), Noted()
        partition.watch(reader)
        partition.watch(follower, follower=True)
        write(partition, acks=1)
        assert (reader.taken(), follower.taken()) == ([], ["marked"])
        read(partition, 1, Reader(OTHER, 0, BROKER_EPOCH))
        assert (reader.taken(), follower.taken()) == (["marked"], ["noted"])
        partition.watch(reader)
        partition.raise_log_start(1)
        assert (reader.taken(), follower.taken()) == (["marked"], ["marked"])
        partition.watch(reader)
        partition.raise_log_start(1)
        assert (reader.taken(), follower.taken()) == ([], []), "that is no news"

    played(tmp_path, play, isr=(ME, OTHER))


def test_a_shrunk_isr_makes_followers_restate_their_position(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        follower = Noted()
        partition.watch(follower, follower=True)
        partition.lead(ME, 3, 1, ALL, (ME, OTHER), {})
        assert follower.taken() == ["restated", "marked"]
        partition.lead(ME, 3, 2, ALL, (ME, OTHER), {})
        assert follower.taken() == ["marked"]

    played(tmp_path, play, isr=ALL)


def test_a_followers_readers_learn_what_its_leader_committed_and_deleted(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        partition.step_down(OTHER, 4, 1, ALL)
        partition.append_fetched(memoryview(batch((b"a", b"b"))))
        reader = Noted()
        partition.watch(reader)
        partition.follow_up(1, Ready())
        assert (partition.log.high_watermark, reader.taken()) == (0, [])
        partition.follow_up(1, Ready(high_watermark=1))
        assert (partition.log.high_watermark, partition.log.log_start, reader.taken()) == (1, 0, ["marked"])
        partition.follow_up(1, Ready(log_start=1))
        assert partition.log.log_start == 1

    played(tmp_path, play, isr=ALL)


def test_a_session_watches_the_partition_that_stands_for_its_entry_and_no_other(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        entry = entry_at(0, follower=True)
        watched: list[str] = []

        class Stand(Partition):
            """Another replica in its place, as after a topic was deleted and made anew."""

            def watch(self, watcher: object, follower: bool = False) -> None:
                watched.append(f"watched as {'a follower' if follower else 'a reader'}")

            def unwatch(self, watcher: object) -> None:
                watched.append("unwatched")

        first, second = Stand(partition.log, alone()), Stand(partition.log, alone())
        entry.bind(first)
        entry.bind(first)
        assert (watched, entry.partition, entry.is_watching) == (["watched as a follower"], first, True)
        entry.mark()
        assert not entry.is_watching
        entry.bind(first)
        assert watched == ["watched as a follower"] * 2, "it looks again, and was never away"
        watched.clear()
        entry.bind(second)
        assert (watched, entry.partition) == (["unwatched", "watched as a follower"], second)
        entry.bind(None)
        assert (watched[2:], entry.partition, entry.is_watching) == (["unwatched"], None, False)

    played(tmp_path, play)


@pytest.mark.parametrize("how", ["forgotten", "closed"])
def test_a_session_lets_go_of_what_it_no_longer_follows(tmp_path: Path, how: str) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        session = FetchSession(1, False, True, 0.0)
        session.update("orders", 0, 3, 0, -1, -1, 1000)
        entry = session.entries["orders", 0]
        entry.bind(partition)
        if how == "forgotten":
            session.forget("orders", [0])
        else:
            session.close()
        write(partition)
        assert (entry.partition, session.dirty) == (None, {})

    played(tmp_path, play)


def test_a_request_keeps_waiting_when_its_leader_is_elected_again(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        calls: list[Code] = []
        write(partition, acks=1)
        partition.when_committed(1, calls.append)
        partition.lead(ME, 4, 1, ALL, (ME, OTHER), {})
        assert calls == []
        partition.lead(ME, 4, 2, ALL, (ME,), {})
        assert calls == [Code.NONE]

    played(tmp_path, play, isr=(ME, OTHER))


def test_an_exception_of_one_callback_is_counted_and_does_not_affect_the_others(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        calls: list[Code] = []

        def mistaken(code: Code) -> None:
            calls.append(code)
            raise ValueError(code)

        write(partition, acks=1)
        partition.when_committed(1, mistaken)
        partition.when_committed(1, calls.append)
        partition.lead(ME, 3, 1, ALL, (ME,), {})
        assert (calls, partition.log.failures.counts["connection"]) == ([Code.NONE, Code.NONE], 1)

    played(tmp_path, play, isr=(ME, OTHER))


def test_a_leader_whose_log_failed_appends_and_commits_nothing(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition, acks=1)
        partition.log.storage_failed(OSError(5, "broken"))
        assert code_of(partition.require_leader) is Code.KAFKA_STORAGE_ERROR
        partition.failed()
        partition.lead(ME, 3, 1, ALL, (ME,), {})
        assert partition.log.high_watermark == 0

    played(tmp_path, play, isr=(ME, OTHER))


def test_a_follower_syncs_what_it_is_asked_for_and_reports_it(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        partition.step_down(OTHER, 4, 1, ALL)
        partition.append_fetched(memoryview(batch((b"a", b"b"))))
        calls: list[str] = []
        partition.when_durable(3, lambda: calls.append("beyond the end"))
        partition.when_durable(2, lambda: calls.append("at the end"))
        assert (calls, partition.log.durability.under_way) == ([], True)
        await until(lambda: bool(calls))
        assert calls == ["at the end"]

    played(tmp_path, play, isr=ALL)


def test_a_cut_is_under_way_until_it_has_ended_and_then_calls_its_callbacks(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        end = asyncio.Event()

        async def cut() -> None:
            await end.wait()

        calls: list[bool] = []
        partition.cutting = asyncio.create_task(cut())
        partition.when_cut(lambda: calls.append(partition.is_being_cut))
        await asyncio.sleep(0)
        assert (partition.is_being_cut, calls) == (True, [])
        assert Followed(partition, 1.0).is_cut
        end.set()
        await until(lambda: bool(calls))
        assert (partition.is_being_cut, calls) == (False, [False])
        assert not Followed(partition, 1.0).is_cut

    played(tmp_path, play)
