"""How long requests take, from histograms that only grow."""

from __future__ import annotations

import pytest

from highwater.console.latency import WINDOW_SECONDS, Buckets, Percentiles, histograms, quantile

INFINITE = float("inf")


def page(api: str, counts: dict[str, int]) -> str:
    rows = [f'highwater_request_seconds_bucket{{request="{api}",le="{le}"}} {n}\n' for le, n in counts.items()]
    return (
        "# TYPE highwater_request_seconds histogram\n"
        + "".join(rows)
        + 'highwater_request_seconds_sum{request="x"} 1\n'
    )


def produced(fast: int, slow: int = 0) -> str:
    """So many within a millisecond, and so many more within ten."""
    return page("Produce", {"0.001": fast, "0.01": fast + slow, "+Inf": fast + slow})


def test_the_buckets_of_each_api_are_read_in_their_order() -> None:
    text = page("Produce", {"+Inf": 5, "0.001": 2}) + page("Fetch", {"0.5": 1, "+Inf": 1}) + "other 1\n"
    assert histograms(text) == {"Produce": ((0.001, 2), (INFINITE, 5)), "Fetch": ((0.5, 1), (INFINITE, 1))}
    assert histograms("") == {}


@pytest.mark.parametrize(
    "buckets, seconds",
    [((), None),
     (((1.0, 0), (INFINITE, 0)), None),
     (((1.0, 100), (INFINITE, 100)), 0.99),
     (((1.0, 98), (2.0, 100), (INFINITE, 100)), 1.5),
     (((1.0, 0), (2.0, 0), (4.0, 10), (INFINITE, 10)), 3.98),
     (((1.0, 1), (INFINITE, 100)), 1.0)],
)  # fmt: skip
def test_a_percentile_lies_within_its_bucket(buckets: Buckets, seconds: float | None) -> None:
    assert quantile(buckets, 0.99) == (None if seconds is None else pytest.approx(seconds))


def test_what_came_between_two_readings_counts_and_what_was_before_does_not() -> None:
    found = Percentiles()
    found.note(0.0, {1: produced(0, 1000), 2: produced(7)})
    found.note(2.0, {1: produced(100, 1000), 2: produced(7)})
    assert found.milliseconds() == [
        {"node": 1, "Produce": 0.99, "Fetch": None}, {"node": 2, "Produce": None, "Fetch": None}
    ]  # fmt: skip


def test_only_the_last_minute_counts() -> None:
    found = Percentiles()
    found.note(0.0, {1: produced(0, 0)})
    found.note(2.0, {1: produced(0, 50)})
    found.note(30.0, {1: produced(10, 50)})
    assert found.milliseconds()[0]["Produce"] > 5
    found.note(2.0 + WINDOW_SECONDS, {1: produced(20, 50)})
    assert found.milliseconds()[0]["Produce"] < 1


def test_a_node_that_was_started_again_begins_anew_and_one_that_is_gone_is_not_listed() -> None:
    found = Percentiles()
    for at, (first, second) in enumerate([(produced(50, 50), produced(1)), (produced(5), None), (produced(15), None)]):
        found.note(float(at), {1: first, 2: second})
    assert found.milliseconds() == [{"node": 1, "Produce": 0.99, "Fetch": None}]


def test_a_cluster_that_reports_none_has_no_latencies() -> None:
    found = Percentiles()
    found.note(0.0, {1: "kafka_brokers 3\n", 2: None})
    assert found.milliseconds() == []
