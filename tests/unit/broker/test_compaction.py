"""A compacted topic of a running node: old values go, by the settings of topic and brokers as they are at the time."""

from __future__ import annotations

import errno

import pytest

from highwater.broker.cleaning_report import cleaner_families, describe_cleaner, describe_log
from highwater.errors import Code
from highwater.log import names
from highwater.wire import records
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_records_response import DeleteRecordsResponse
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse
from tests.unit.broker.living import NODE, Living
from tests.unit.broker.reconfiguring import TOPIC, alter, log_of, write
from tests.unit.broker.test_divergence import produce

AT_ONCE = {"log_cleaner_backoff_ms": "500", "log_cleaner_min_cleanable_ratio": "0", "log_segment_bytes": "1048576"}
COMPACT = {**AT_ONCE, "log_cleanup_policy": "compact"}


def is_compacted(living: Living) -> bool:
    log = log_of(living)
    return log.clean_end == log.active.base_offset > 0


def test_a_running_node_keeps_the_last_value_of_each_key() -> None:
    with Living(**COMPACT).start() as living:
        living.create_topic(TOPIC)
        write(living, [b"key-%d" % (number % 3) for number in range(10)])
        log = log_of(living)
        assert len(log.segments) > 1
        living.sim.advance(3)
        assert is_compacted(living)
        assert sum(segment.size for segment in log.segments[:-1]) < 1_000_000
        assert log.log_end == 10


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("cleanup.policy", "delete", "compact"),
        ("cleanup.policy", "delete", "compact,delete"),
        ("log.cleanup.policy", "delete", "compact"),
        ("min.cleanable.dirty.ratio", "1.0", "0.0"),
        ("log.cleaner.min.cleanable.ratio", "1.0", "0.0"),
        ("min.compaction.lag.ms", "86400000", "0"),
        ("log.cleaner.min.compaction.lag.ms", "86400000", "0"),
        ("log.cleaner.threads", "0", "1"),
        ("log.cleaner.backoff.ms", "86400000", "500"),
        ("log.cleaner.io.max.bytes.per.second", "100", "100000000"),
    ],
)
def test_a_setting_that_keeps_the_cleaner_away_lets_it_in_when_it_is_changed(
    name: str, before: str, after: str
) -> None:
    of_topic = not name.startswith("log.")
    settings = COMPACT if of_topic else {**COMPACT, name.replace(".", "_"): before}
    with Living(**settings).start() as living:
        living.create_topic(TOPIC)
        if of_topic:
            alter(living, name, before)
        write(living, [b"key"] * 10)
        living.sim.advance(100)
        assert log_of(living).clean_end is None
        alter(living, name, after)
        living.sim.advance(5)
        assert is_compacted(living)


@pytest.mark.parametrize("name", ["max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"])
def test_records_older_than_the_longest_compaction_lag_are_compacted_even_if_few(name: str) -> None:
    with Living(**{**COMPACT, "log_cleaner_min_cleanable_ratio": "1.0"}).start() as living:
        living.create_topic(TOPIC)
        alter(living, name, "60000")
        write(living, [b"key"] * 10)
        living.sim.advance(50)
        assert log_of(living).clean_end is None
        living.sim.advance(20)
        assert is_compacted(living)
        (family,) = (
            each for each in cleaner_families(living.node.broker, list(living.node.broker.hosted))
            if each.name == "kafka_log_logcleaner_max_compaction_delay_secs"
        )  # fmt: skip
        assert [value for _, value in family.rows] == [0]


@pytest.mark.parametrize("name", ["delete.retention.ms", "log.cleaner.delete.retention.ms"])
def test_a_tombstone_stays_as_long_as_was_asked_for_when_it_was_first_met(name: str) -> None:
    with Living(**COMPACT).start() as living:
        living.create_topic(TOPIC)
        alter(living, name, "60000")
        now = living.world.clock.wall_ms()
        assert produce(living, records.build([(now, b"gone", None, ())])).error_code == Code.NONE
        sizes = []
        for _ in range(3):
            write(living, [b"key"] * 5)
            living.sim.advance(5)
            assert is_compacted(living)
            first = log_of(living).segments[0]
            header = records.read_header(first.file.read(0, first.size))
            sizes.append((header.base_offset, header.delete_horizon is not None))
            living.sim.advance(30)
        assert sizes[:2] == [(0, True)] * 2
        assert sizes[2][0] > 0


def test_tombstones_that_are_kept_for_ever_are_compacted_like_any_other() -> None:
    with Living(**COMPACT).start() as living:
        living.create_topic(TOPIC)
        alter(living, "delete.retention.ms", str(2**63 - 1))
        now = living.world.clock.wall_ms()
        assert produce(living, records.build([(now, b"gone", None, ())])).error_code == Code.NONE
        for _ in range(2):
            write(living, [b"key"] * 5)
            living.sim.advance(5)
            assert is_compacted(living)
        log = log_of(living)
        whole = log.segments[0].file.read(0, log.segments[0].size)
        header = records.read_header(whole)
        assert (header.base_offset, header.delete_horizon) == (0, 2**63 - 1)
        assert next(records.iterate_all(whole)) == records.Record(0, now, b"gone", None, [])
        assert not living.node.broker.cleaner.account.setbacks


def test_the_latest_record_is_found_though_the_first_batch_has_none_left_behind_the_log_start() -> None:
    with Living(**{**COMPACT, "log_cleanup_policy": "compact,delete"}).start() as living:
        living.create_topic(TOPIC)
        now = living.world.clock.wall_ms()
        first = [(now + 9, key, b"old", ()) for key in (b"stays", b"key", b"key")]
        assert produce(living, records.build(first)).error_code == Code.NONE
        write(living, [b"key"] * 5, at_ms=now)
        living.sim.advance(5)
        assert is_compacted(living)
        gone = DeleteRecordsPartition(partition_index=0, offset=1)
        asked = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[gone])], timeout_ms=1000)
        outcome = living.ask(asked, DeleteRecordsResponse, 2).topics[0].partitions[0]
        assert (outcome.error_code, outcome.low_watermark) == (Code.NONE, 1)
        latest = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-3)])
        answer = living.ask(ListOffsetsRequest(replica_id=-1, topics=[latest]), ListOffsetsResponse, 7)
        row = answer.topics[0].partitions[0]
        assert (row.error_code, row.timestamp) == (Code.NONE, now)
        assert row.offset > 2


def test_a_cleaner_that_is_switched_off_does_nothing_and_says_so() -> None:
    with Living(**COMPACT, log_cleaner_enable="false").start() as living:
        living.create_topic(TOPIC)
        write(living, [b"key"] * 10)
        living.sim.advance(100)
        assert log_of(living).clean_end is None
        assert describe_cleaner(living.node.broker)["enabled"] is False


def test_a_policy_that_is_taken_back_ends_a_cleaning_that_is_under_way() -> None:
    with Living(**COMPACT, log_cleaner_io_max_bytes_per_second="100000").start() as living:
        living.create_topic(TOPIC)
        write(living, [b"key"] * 20)
        account, log = living.node.broker.cleaner.account, log_of(living)
        living.sim.run(living.sim.until(lambda: log.partition in account.under_way))
        alter(living, "cleanup.policy", "delete")
        living.sim.advance(200)
        assert not account.under_way and account.cleanings == 0 and log.clean_end is None
        assert not any(name.endswith(names.CLEANED) for name in living.world.disk.list(log.directory))


def test_progress_and_the_last_cleaning_are_shown_while_they_last() -> None:
    with Living(**COMPACT, log_cleaner_io_max_bytes_per_second="1000000").start() as living:
        broker = living.node.broker
        living.create_topic(TOPIC)
        write(living, [b"key-%d" % (number % 2) for number in range(20)])
        log = log_of(living)
        before = describe_log(broker, log)
        assert before is not None and before["due"] and before["dirty_ratio"] == 1.0
        assert (before["under_way"], before["last"], before["failed"]) == (None, None, None)
        shares = []
        while not broker.cleaner.account.cleanings:
            living.sim.advance(0.5)
            outcome = describe_log(broker, log)
            assert outcome is not None
            shares += [] if outcome["under_way"] is None else [outcome["under_way"]["share"]]
        assert len(shares) > 5 and shares == sorted(shares) and 0 <= shares[0] < 0.3 and shares[-1] > 0.7
        outcome = describe_log(broker, log)
        assert outcome is not None
        read = outcome["last"]["bytes_read"]
        assert outcome["last"]["keys"] == 2 and read == 2 * before["dirty_bytes"]
        assert outcome["dirty_bytes"] == 0 and outcome["clean_end"] == log.active.base_offset and not outcome["due"]
        of_node = describe_cleaner(broker)
        assert (of_node["cleanings"], of_node["bytes_read"], of_node["under_way"]) == (1, read, [])
        rows = {each.name: [value for _, value in each.rows] for each in cleaner_families(broker, list(broker.hosted))}
        assert rows["highwater_cleaner_read_bytes_total"] == [read]
        assert rows["highwater_log_dirty_bytes"] == [0]
        assert rows["kafka_log_logcleaner_cleaner_recopy_percent"] == [200 * outcome["last"]["bytes_written"] // read]
        assert rows["kafka_log_logcleaner_max_clean_time_secs"] == [int(outcome["last"]["seconds"])]


@pytest.mark.parametrize("again", [True, False])
def test_a_log_that_cannot_be_cleaned_is_shown_with_the_reason(again: bool) -> None:
    """A disk that was full may have room; one that failed will fail again."""
    with Living(**COMPACT).start() as living:
        broker = living.node.broker
        living.create_topic(TOPIC)
        write(living, [b"key"] * 10)
        log, account = log_of(living), broker.cleaner.account
        code = errno.ENOSPC if again else errno.EIO
        living.sim.storage(NODE).fail("append", f"*/{TOPIC}-0/*.cleaned", code)
        living.sim.run(living.sim.until(lambda: log.partition in account.setbacks))
        outcome = describe_log(broker, log)
        assert outcome is not None and outcome["failed"]["tried_again"] is again
        assert f"Errno {code}" in outcome["failed"]["reason"]
        rows = {each.name: list(each.rows) for each in cleaner_families(broker, list(broker.hosted))}
        assert rows["kafka_log_logcleaner_deadthreadcount"] == [("", int(again))]
        labels = '{logDirectory="/data"}'
        assert rows["kafka_log_logcleanermanager_uncleanable_partitions_count"] == [(labels, int(not again))]
        dirty = 0 if again else outcome["dirty_bytes"]
        assert rows["kafka_log_logcleanermanager_uncleanable_bytes"] == [(labels, dirty)]
        assert describe_cleaner(broker)["uncleanable"] == ([] if again else ["t-0"])
        living.sim.storage(NODE).mend()
        living.sim.advance(20)
        assert (log.clean_end is not None) is again
        assert (log.partition in account.setbacks) is not again
        assert log.offline is None


def test_a_topic_made_again_has_no_past() -> None:
    with Living(**COMPACT).start() as living:
        living.create_topic(TOPIC)
        write(living, [b"key"] * 10)
        account, log = living.node.broker.cleaner.account, log_of(living)
        living.sim.storage(NODE).fail("append", f"*/{TOPIC}-0/*.cleaned", errno.EIO)
        living.sim.run(living.sim.until(lambda: account.uncleanable(log.partition)))
        answer = living.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=5000), DeleteTopicsResponse, 4)
        assert [each.error_code for each in answer.responses] == [Code.NONE]
        living.sim.run(living.sim.until(lambda: log.partition not in living.node.broker.store.logs))
        living.create_topic(TOPIC)
        living.sim.advance(2)
        assert not account.setbacks
