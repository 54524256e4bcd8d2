"""How long Produce and Fetch take, as /metrics has it."""

from __future__ import annotations

import pytest

from highwater.broker.latency import BOUNDS, Histogram, Latencies
from tests.unit.broker import test_cold_fetch
from tests.unit.broker.living import Living
from tests.unit.broker.test_waiting_fetches import Reader, begun, produce, values, wanted


def latencies(living: Living) -> Latencies:
    assert living.node.broker is not None
    return living.node.broker.latencies


def count(histogram: Histogram) -> int:
    return sum(histogram.counts)


@pytest.mark.parametrize("seconds, bucket", [(0.0, 0), (0.0001, 0), (0.00011, 1), (0.03, 14), (31.0, len(BOUNDS))])
def test_a_request_is_counted_below_the_first_bound_that_it_does_not_exceed(seconds: float, bucket: int) -> None:
    histogram = Histogram()
    histogram.note(seconds)
    assert histogram.counts.index(1) == bucket and histogram.seconds == seconds


def test_buckets_are_cumulative_and_the_last_one_counts_everything() -> None:
    found = Latencies(lambda: 0.0)
    for seconds in (0.00005, 0.003, 0.003, 99.0):
        found.produce.note(seconds)
    (family,) = found.families()
    text = b"".join(family.parts()).decode()
    assert "# TYPE highwater_request_seconds histogram\n" in text
    for line in ('_bucket{request="Produce",le="0.0001"} 1', '_bucket{request="Produce",le="0.003"} 3',
                 '_bucket{request="Produce",le="30.0"} 3', '_bucket{request="Produce",le="+Inf"} 4',
                 '_count{request="Produce"} 4', '_count{request="Fetch"} 0'):  # fmt: skip
        assert f"highwater_request_seconds{line}\n" in text


def test_a_record_that_is_produced_is_counted_once_with_the_time_until_its_answer() -> None:
    with begun() as living:
        before = count(latencies(living).produce)
        produce(living, b"v")
        assert count(latencies(living).produce) == before + 1


def test_a_fetch_that_waits_for_records_is_counted_from_the_moment_they_are_there() -> None:
    with begun() as living:
        reader = Reader(living)
        reader.ask(wanted())
        living.sim.advance(40.0)
        assert count(latencies(living).fetch) == 0 and not reader.answers
        produce(living, b"v")
        living.sim.advance(1.0)
        assert values(reader.answers[0]) == [b"v"]
        assert count(latencies(living).fetch) == 1 and latencies(living).fetch.seconds < 0.1
        reader.close()


def test_a_fetch_that_gets_no_records_in_its_time_is_not_counted() -> None:
    with begun() as living:
        reader = Reader(living)
        reader.ask(wanted(max_wait_ms=100))
        living.sim.advance(5.0)
        assert len(reader.answers) == 1 and count(latencies(living).fetch) == 0
        reader.close()


def test_the_time_in_which_a_position_is_looked_up_on_disk_counts() -> None:
    with test_cold_fetch.with_cold_logs(Living()) as living:
        rows = test_cold_fetch.fetch(living, test_cold_fetch.wanted(0, 1))
        assert rows[0].records
        assert count(latencies(living).fetch) == 1 and latencies(living).fetch.seconds > 0
