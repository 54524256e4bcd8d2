"""Retention of a running node on virtual time: by each rule, at its interval, and after a change of the settings."""

from __future__ import annotations

import errno

import pytest

from highwater.errors import Code
from highwater.log import names
from highwater.log.log import Log
from highwater.wire import records
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_records_response import DeleteRecordsResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from tests.unit.broker.living import Living
from tests.unit.broker.reconfiguring import TOPIC, alter, log_of, write
from tests.unit.broker.test_divergence import batch_of, produce

CHECK_SECONDS = 20
SMALL = {
    "log_segment_bytes": "1048576",
    "log_retention_ms": "-1",
    "log_retention_check_interval_ms": str(CHECK_SECONDS * 1000),
}
DAY = 86_400_000


def deleted_files(living: Living) -> list[str]:
    return [name for name in living.world.disk.list(log_of(living).directory) if name.endswith(names.DELETED)]


def seconds_until_it_begins_later(living: Living, patience: float = 200) -> float:
    log, begun, start = log_of(living), living.sim.now, log_of(living).log_start
    living.sim.run(living.sim.until(lambda: log.log_start > start, limit=patience))
    return living.sim.now - begun


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("retention.ms", "-1", "10000"),
        ("log.retention.ms", "-1", "10000"),
        ("retention.bytes", "-1", "1100000"),
        ("log.retention.bytes", "-1", "1100000"),
        ("cleanup.policy", "compact", "delete"),
        ("cleanup.policy", "compact", "compact,delete"),
        ("log.cleanup.policy", "compact", "delete"),
    ],
)
def test_a_setting_that_keeps_everything_lets_it_go_when_it_is_changed(name: str, before: str, after: str) -> None:
    of_topic = not name.startswith("log.")
    settings = dict(SMALL)
    if "policy" in name:
        settings |= {"log_retention_ms": "10000", "log_cleaner_enable": "false"}
    if not of_topic:
        settings[name.replace(".", "_")] = before
    with Living(**settings).start() as living:
        living.create_topic(TOPIC)
        if of_topic:
            alter(living, name, before)
        write(living, [b"key"] * 10)
        living.sim.advance(3 * CHECK_SECONDS)
        log = log_of(living)
        assert (log.log_start, len(log.segments)) == (0, 4)
        alter(living, name, after)
        assert seconds_until_it_begins_later(living) <= CHECK_SECONDS + 1
        living.sim.advance(1)  # one segment goes after the other
        if "bytes" in name:
            assert log.size > 1_100_000 > log.size - log.segments[0].size
        else:
            assert (log.log_start, log.log_end, log.size) == (10, 10, 0), "the active segment goes as well"


@pytest.mark.parametrize("interval", [7, 90])
def test_records_that_are_too_old_go_at_the_next_check(interval: int) -> None:
    settings = {"log_retention_check_interval_ms": str(interval * 1000), "log_retention_ms": "50000"}
    with Living(**settings).start() as living:
        living.create_topic(TOPIC)
        write(living, [b"key"], size=10)
        took = seconds_until_it_begins_later(living)
        assert 50 <= took <= 50 + interval + 1
        first_check = 30.0
        assert (living.sim.now - first_check) % interval == pytest.approx(0, abs=2)


def test_no_segment_goes_after_the_upkeep_has_stopped() -> None:
    """A clean stop notes where each log begins. A segment that went after that would count as lost at the next
    start."""
    with Living(**SMALL).start() as living:
        living.create_topic(TOPIC)
        write(living, [b"key"] * 10)
        log, role = log_of(living), living.node.role
        assert role is not None and len(log.segments) == 4
        alter(living, "retention.ms", "10000")
        seconds_until_it_begins_later(living)
        living.world.call(role.upkeep.stop)
        left = len(log.segments)
        assert left > 1, "it is under way"
        living.sim.advance(5)
        assert len(log.segments) == left


@pytest.mark.parametrize("has_room", [True, False])
def test_retention_handles_one_partition_in_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch, has_room: bool) -> None:
    """Each makes and renames files, which takes some milliseconds: together they would keep all clients waiting."""
    partitions, rolled, in_this_turn, most = 30, 0, 0, 0
    roll = Log.roll

    def noted(log: Log, base_offset: int | None = None) -> None:
        nonlocal rolled, in_this_turn, most
        rolled, in_this_turn = rolled + 1, in_this_turn + 1
        most = max(most, in_this_turn)
        living.world.clock.call_soon(next_turn)
        if not has_room:
            raise OSError(errno.ENOSPC, "No space left on device")
        roll(log, base_offset)

    def next_turn() -> None:
        nonlocal in_this_turn
        in_this_turn = 0

    with Living(**{**SMALL, "log_retention_ms": "10000"}).start() as living:
        living.create_topic(TOPIC, partitions)
        batch = bytes(batch_of(living, b"v"))
        rows = [PartitionProduceData(index=index, records=batch) for index in range(partitions)]
        data = [TopicProduceData(name=TOPIC, partition_data=rows)]
        living.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), ProduceResponse, 9)
        living.sim.advance(25)
        monkeypatch.setattr(Log, "roll", noted)
        living.sim.run(living.sim.until(lambda: rolled >= partitions, limit=60))
        assert most == 1


@pytest.mark.parametrize("name", ["file.delete.delay.ms", "log.segment.delete.delay.ms"])
def test_deleted_files_stay_for_as_long_as_the_setting_says_at_the_time(name: str) -> None:
    with Living(**SMALL).start() as living:
        living.create_topic(TOPIC)
        for delay in (10, 30):
            alter(living, name, str(delay * 1000))
            write(living, [b"key"] * 4)
            alter(living, "retention.ms", "1000")
            seconds_until_it_begins_later(living)
            alter(living, "retention.ms", "-1")
            assert deleted_files(living)
            living.sim.advance(delay - 2)
            assert deleted_files(living)
            living.sim.advance(4)
            assert not deleted_files(living)


def test_a_record_of_the_future_is_refused_unless_the_topic_takes_it_and_then_pins_what_follows() -> None:
    with Living(**{**SMALL, "log_retention_ms": "10000"}).start() as living:
        living.create_topic(TOPIC)
        now = living.world.clock.wall_ms()
        future = records.build([(now + 30 * DAY, b"key", b"v", ())])
        assert produce(living, future).error_code == Code.INVALID_TIMESTAMP
        alter(living, "message.timestamp.after.max.ms", str(100 * DAY))
        write(living, [b"old"] * 4)
        write(living, [b"key"], size=10, at_ms=now + 30 * DAY)
        write(living, [b"later"] * 4)
        log = log_of(living)
        pinned = next(segment.base_offset for segment in log.segments if segment.largest.timestamp > now + DAY)
        assert pinned > 0
        living.sim.advance(3 * CHECK_SECONDS)
        assert log.log_start == pinned, "what is older than it goes, and nothing from it on"
        alter(living, "retention.bytes", "0")
        seconds_until_it_begins_later(living)
        living.sim.advance(1)
        assert log.log_start == log.log_end == 9, "by size it goes whatever its time"


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_whole_segments_below_deleted_records_go_under_every_policy_that_deletes(policy: str) -> None:
    with Living(**SMALL, log_cleaner_enable="false").start() as living:
        living.create_topic(TOPIC)
        alter(living, "cleanup.policy", policy)
        write(living, [b"key"] * 10)
        log = log_of(living)
        second, third = log.segments[1].base_offset, log.segments[2].base_offset
        assert delete_below(living, third + 1) == (Code.NONE, third + 1)
        assert (log.log_start, log.segments[0].base_offset) == (third + 1, 0)
        living.sim.advance(CHECK_SECONDS + 31)
        assert second < third
        assert (log.log_start, log.segments[0].base_offset) == (third + 1, third)


def test_records_of_a_topic_that_is_only_compacted_cannot_be_deleted_until_its_policy_is_another() -> None:
    with Living(**SMALL).start() as living:
        living.create_topic(TOPIC)
        alter(living, "cleanup.policy", "compact")
        write(living, [b"key"] * 3)
        assert delete_below(living, 2)[0] == Code.POLICY_VIOLATION
        alter(living, "cleanup.policy", "compact,delete")
        assert delete_below(living, 2) == (Code.NONE, 2)


def delete_below(living: Living, offset: int) -> tuple[int, int]:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    asked = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[partition])], timeout_ms=5000)
    (answer,) = living.ask(asked, DeleteRecordsResponse, 2).topics[0].partitions
    return answer.error_code, answer.low_watermark
