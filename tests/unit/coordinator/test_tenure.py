"""What becomes of the writes of a machine, and of its alarms."""

from __future__ import annotations

import gc
from dataclasses import replace
from weakref import ref

import pytest

from highwater.coordinator.tenure import AFTER_FAILURE_SECONDS
from highwater.effects import Answer
from highwater.wire import records
from highwater.wire.compression import Codec
from highwater.wire.messages.heartbeat_response import HeartbeatResponse
from tests.unit.coordinator.stage import COMMIT_SECONDS, ME, OTHER, Stage


def test_a_write_is_answered_once_the_high_watermark_has_passed_it() -> None:
    with Stage() as stage:
        stage.lead(isr=(ME, OTHER))
        machine = stage.loaded().machine
        stage.put(b"a")
        stage.put(b"b")
        assert (stage.answers, machine.values) == ([], {})
        stage.follower_has(1)
        assert stage.answers == ["a committed"]
        stage.follower_has(2)
        assert stage.answers == ["a committed", "b committed"]
        stage.sim.advance(2 * COMMIT_SECONDS)
        assert stage.answers == ["a committed", "b committed"]


def test_a_write_that_is_not_committed_in_time_is_overdue_and_may_be_committed_yet() -> None:
    with Stage() as stage:
        stage.lead(isr=(ME, OTHER))
        machine = stage.loaded().machine
        stage.put(b"a")
        stage.sim.advance(COMMIT_SECONDS - 0.5)
        assert stage.answers == []
        stage.sim.advance(1)
        assert stage.answers == ["a overdue"]
        stage.follower_has(1)
        assert stage.answers == ["a overdue", "a committed"]
        assert machine.values == {b"a": b"v"}


def test_a_write_that_stays_uncommitted_is_overdue_again_for_the_requests_that_came_later() -> None:
    with Stage() as stage:
        stage.lead(isr=(ME, OTHER))
        stage.loaded()
        stage.put(b"a")
        stage.sim.advance(2 * COMMIT_SECONDS + 0.5)
        assert stage.answers == ["a overdue", "a overdue"]
        stage.follower_has(1)
        stage.sim.advance(3 * COMMIT_SECONDS)
        assert stage.answers == ["a overdue", "a overdue", "a committed"]


def test_a_write_whose_log_fails_is_overdue_until_another_broker_leads() -> None:
    with Stage() as stage:
        stage.lead(isr=(ME, OTHER))
        stage.loaded()
        stage.put(b"a")
        stage.world.call(stage.partition.failed)
        stage.sim.advance(COMMIT_SECONDS + 0.5)
        assert stage.answers == ["a overdue"]
        stage.step_down(2)
        stage.sim.advance(2 * COMMIT_SECONDS)
        assert stage.answers == ["a overdue", "a resigned"]


def test_a_write_that_the_partition_refuses_fails_at_once() -> None:
    with Stage(min_insync_replicas=2) as stage:
        stage.lead(isr=(ME, OTHER))
        stage.loaded()
        stage.world.call(stage.partition.lead, ME, 1, 2, (ME, OTHER), (ME,), {})
        stage.put(b"a")
        assert stage.answers == ["a failed: NOT_ENOUGH_REPLICAS"]
        assert stage.partition.log.log_end == 0


def test_a_batch_that_is_too_large_fails() -> None:
    with Stage(max_message_bytes=1000) as stage:
        stage.lead()
        stage.loaded()
        stage.put(b"a", b"v" * 2000)
        assert stage.answers == ["a failed: MESSAGE_TOO_LARGE"]


def test_a_resigning_machine_answers_all_waiting_requests_and_gets_no_more_results() -> None:
    with Stage() as stage:
        stage.lead(isr=(ME, OTHER))
        stage.loaded()
        stage.put(b"a")
        stage.put(b"b")
        stage.step_down(2)
        assert stage.answers == ["a resigned", "b resigned"]
        stage.sim.advance(2 * COMMIT_SECONDS)
        assert stage.answers == ["a resigned", "b resigned"]


def test_writes_that_follow_from_a_commit_come_after_earlier_writes() -> None:
    with Stage() as stage:
        stage.lead()
        tenure = stage.loaded()
        machine = tenure.machine
        machine.then[b"a"] = machine.put(b"c", b"v")
        stage.world.call(lambda: tenure.carry_out([machine.put(b"a", b"v"), machine.put(b"b", b"v")]))
        assert stage.answers == ["a committed", "b committed", "c committed"]
        data = bytes(stage.partition.log.segments[0].file.read(0, 1 << 20))
        assert [record.key for record in records.iterate_all(data)] == [b"a", b"b", b"c"]


def test_writes_caused_by_an_earlier_commit_come_after_the_write_that_committed_it() -> None:
    with Stage() as stage:
        stage.lead(isr=(ME, OTHER))
        machine = stage.loaded().machine
        stage.put(b"a")
        leader = stage.partition.leader
        assert leader is not None
        leader._take((ME, OTHER), (ME,), 2)  # the next append moves the high watermark over both
        machine.then[b"a"] = machine.put(b"c", b"v")
        stage.put(b"b")
        assert stage.answers == ["a committed", "b committed", "c committed"]


def test_the_alarm_rings_when_it_is_due_though_it_was_moved() -> None:
    with Stage() as stage:
        stage.lead()
        tenure = stage.loaded()
        start = stage.world.clock.monotonic()
        for delay, other in ((10, None), (30, None), (5, "sooner")):
            tenure.machine.alarm = start + delay
            stage.world.call(tenure.carry_out, [])
            assert other is None or tenure._due == start + 5
        stage.sim.advance(4)
        assert tenure.machine.events == ["loaded"]
        stage.sim.advance(2)
        assert tenure.machine.events == ["loaded", f"alarm at {start + 5:.0f}"]
        tenure.machine.alarm = start + 40
        stage.world.call(tenure.carry_out, [])
        stage.step_down(2)
        stage.sim.advance(100)
        assert len(tenure.machine.events) == 2


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_a_machine_are_compressed_by_the_configured_codec(codec: Codec) -> None:
    with Stage(codec=codec) as stage:
        stage.lead()
        stage.loaded()
        stage.put(b"a", b"v" * 500)
        header = records.read_header(bytes(stage.partition.log.segments[0].file.read(0, 1 << 20)))
        assert header.codec == codec
        stage.step_down(2)
        stage.lead(3)
        assert stage.loaded().machine.values == {b"a": b"v" * 500}


def test_a_coordinator_that_stops_ends_all_its_tenures() -> None:
    with Stage() as stage:
        stage.lead(isr=(ME, OTHER))
        stage.loaded()
        stage.put(b"a")
        stage.world.call(stage.coordinator.stop)
        assert stage.answers == ["a resigned"]
        assert list(stage.coordinator) == []


def test_long_work_is_done_in_pieces_with_a_turn_of_the_loop_between_them() -> None:
    with Stage(max_message_bytes=1000) as stage:
        stage.lead()
        tenure = stage.loaded()
        seen: list[int] = []

        def look() -> None:
            seen.append(len(stage.answers))
            if len(stage.answers) < 3:
                stage.world.clock.call_soon(look)

        tenure.machine.pieces = [b"a", b"b", b"c"]
        stage.world.call(tenure.carry_out, [])
        assert stage.answers == []
        stage.world.call(look)
        stage.until(lambda: len(stage.answers) == 3)
        stage.sim.advance(1)
        assert stage.answers == ["a committed", "b committed", "c committed"]
        assert sorted(set(seen)) == [0, 1, 2, 3]
        assert tenure.machine.rooms == [1000, 1000, 1000], "what the partition takes"


def test_a_tenure_that_is_over_goes_on_with_nothing() -> None:
    with Stage() as stage:
        stage.lead()
        tenure = stage.loaded()
        tenure.machine.pieces = [b"a", b"b"]
        stage.world.call(tenure.carry_out, [])
        stage.step_down(2)
        stage.sim.advance(1)
        assert (stage.answers, tenure.machine.pieces) == ([], [b"a", b"b"])


def test_a_tenure_that_ends_between_two_effects_writes_nothing_more() -> None:
    """This broker may lead again by then, in a new epoch, and another machine then owns the partition."""
    with Stage() as stage:
        stage.lead()
        tenure = stage.loaded()
        stage.after_answer = tenure.end
        answer = Answer("first", HeartbeatResponse())
        stage.world.call(lambda: tenure.carry_out([answer, tenure.machine.put(b"a", b"v")]))
        assert stage.answers[0] == "first"
        assert stage.partition.log.log_end == 0


def test_a_write_without_a_waiting_caller_is_logged_when_it_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with Stage(max_message_bytes=1000) as stage:
        stage.lead()
        tenure = stage.loaded()
        for about in ("", "what it is about"):
            write = replace(tenure.machine.put(b"a", b"v" * 2000), about=about)
            tenure.machine.open[write] = "a"
            stage.world.call(tenure.carry_out, [write])
        (line,) = [record for record in caplog.records if record.name.startswith("highwater.coordinator")]
        assert "what it is about could not be written" in line.getMessage()
        assert line.levelname == "WARNING"


def test_an_alarm_rings_once_and_the_next_one_too() -> None:
    with Stage() as stage:
        stage.lead()
        tenure = stage.loaded()
        start = stage.world.clock.monotonic()
        for delay in (10, 5, 20):
            tenure.machine.alarm = start + delay
            stage.world.call(tenure.carry_out, [])
            if delay == 10:
                continue
            stage.sim.advance(delay + 1 - (stage.world.clock.monotonic() - start))
        assert tenure.machine.events == ["loaded", f"alarm at {start + 5:.0f}", f"alarm at {start + 20:.0f}"]
        assert tenure.machine.expirations == 2, "the timer that was too late is gone"


def test_an_alarm_that_fails_is_tried_again() -> None:
    with Stage() as stage:
        stage.sim.forgives = True
        stage.lead()
        tenure = stage.loaded()
        machine, start = tenure.machine, stage.world.clock.monotonic()
        machine.mistakes, machine.alarm = 2, start + 5
        stage.world.call(tenure.carry_out, [])
        stage.sim.advance(5 + 1.5 * AFTER_FAILURE_SECONDS)
        assert (machine.mistakes, machine.events) == (0, ["loaded"]), "not in one go"
        stage.sim.advance(AFTER_FAILURE_SECONDS)
        assert machine.events == ["loaded", f"alarm at {start + 5:.0f}"]
        assert stage.world.failures.counts["partition"] == 2


def test_long_work_goes_on_after_a_mistake() -> None:
    with Stage() as stage:
        stage.sim.forgives = True
        stage.lead()
        tenure = stage.loaded()
        tenure.machine.mistakes, tenure.machine.pieces = 1, [b"a", b"b"]
        stage.world.call(tenure.carry_out, [])
        stage.sim.advance(AFTER_FAILURE_SECONDS / 2)
        assert stage.answers == []
        stage.sim.advance(AFTER_FAILURE_SECONDS)
        assert stage.answers == ["a committed", "b committed"]


def test_an_earlier_alarm_after_a_failure_is_not_delayed() -> None:
    with Stage() as stage:
        stage.sim.forgives = True
        stage.lead()
        tenure = stage.loaded()
        tenure.machine.mistakes, tenure.machine.alarm = 1, stage.world.clock.monotonic() + 5
        stage.world.call(tenure.carry_out, [])
        stage.sim.advance(5 + AFTER_FAILURE_SECONDS / 4)
        assert tenure.machine.mistakes == 0
        tenure.machine.alarm = stage.world.clock.monotonic() + AFTER_FAILURE_SECONDS / 4
        stage.world.call(tenure.carry_out, [])
        stage.sim.advance(AFTER_FAILURE_SECONDS / 2)
        assert tenure.machine.expirations == 1


def test_a_piece_has_one_turn_however_often_it_is_looked_for() -> None:
    with Stage() as stage:
        stage.lead()
        tenure = stage.loaded()
        tenure.machine.pieces = [b"a"]
        for _ in range(3):
            stage.world.call(tenure.carry_out, [])
        stage.sim.advance(1)
        assert (stage.answers, len(tenure.machine.rooms)) == (["a committed"], 1)


def test_a_tenure_that_is_over_is_freed() -> None:
    with Stage() as stage:
        stage.lead()
        tenure = stage.loaded()
        tenure.machine.alarm = stage.world.clock.monotonic() + 1_000_000
        stage.world.call(tenure.carry_out, [])
        over = ref(tenure)
        del tenure
        stage.step_down(2)
        stage.sim.advance(60)
        gc.collect()
        assert over() is None
