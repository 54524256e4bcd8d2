"""The figures of the measuring tools, without a cluster."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.cli import main
from highwater.cli.consumer_perf import Read, interval_line, total_line
from highwater.cli.java_dates import java_date
from highwater.cli.producer_perf import split_payloads, spread
from highwater.cli.send_statistics import SendStatistics

AT = datetime(2026, 3, 4, 15, 6, 7, 89_000)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-03-04 15:06:07:089"),
        ("d.M.yy", "4.3.26"),
        ("yyyy'T'HH''mm", "2026T15'06"),
        ("hh a", "03 PM"),
        ("D", "63"),
    ],
)
def test_times_are_shown_by_java_s_patterns(pattern: str, text: str) -> None:
    assert java_date(pattern, AT) == text


@pytest.mark.parametrize("pattern", ["MMM", "EEE", "z", "yyyy 'T"])
def test_a_pattern_that_is_not_available_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        java_date(pattern, AT)


def test_an_option_with_several_values_is_repeated_for_each() -> None:
    assert spread(["--props", "a=1", "b=2", "--topic", "t"], ("--props",)) == (
        ["--props", "a=1", "--props", "b=2", "--topic", "t"]
    )


@pytest.mark.parametrize(
    ("delimiter", "parts"),
    [("\\n", ["a,b", "c"]), (",", ["a", "b\nc\n"]), ("(,)|\n", ["a", "b", "c"]), ("x", ["a,b\nc\n"])],
)
def test_a_file_of_payloads_is_split_where_the_delimiter_matches(delimiter: str, parts: list[str]) -> None:
    assert split_payloads("a,b\nc\n", delimiter) == parts


def test_a_delimiter_that_is_no_regular_expression_is_reported_in_one_line(tmp_path: Path) -> None:
    payloads = tmp_path / "payloads"
    payloads.write_text("a(b")
    args = ["producer-perf", "--topic", "t", "--num-records", "1", "--throughput", "-1", "--payload-file", payloads]
    done = CliRunner().invoke(main, [*map(str, args), "--payload-delimiter", "(", "--bootstrap-server", "localhost:1"])
    assert (done.exit_code, done.stderr) == (
        1,
        "--payload-delimiter ( is not a regular expression: missing ), unterminated subpattern at position 0\n",
    )


def test_percentiles_average_and_rates_are_those_of_the_latencies() -> None:
    whole = SendStatistics(100, 5000, now=1000)
    for latency in range(100):
        assert whole.record(latency, 1024 * 1024, now=1500) == []
    assert whole.total(now=3000) == (
        "100 records sent, 50.000000 records/sec (50.00 MB/sec), 49.50 ms avg latency, 99.00 ms max latency, "
        "50 ms 50th, 95 ms 95th, 99 ms 99th, 99 ms 99.9th."
    )


def test_an_interval_that_is_over_has_a_line_and_the_next_one_begins_empty() -> None:
    whole = SendStatistics(10, 1000, now=0)
    assert whole.record(4, 0, now=999) == []
    assert whole.record(8, 0, now=2000) == [
        "2 records sent, 1.0 records/sec (0.00 MB/sec), 6.0 ms avg latency, 8.0 ms max latency."
    ]
    assert whole.record(1, 0, now=3000) == [
        "1 records sent, 1.0 records/sec (0.00 MB/sec), 1.0 ms avg latency, 1.0 ms max latency."
    ]
    whole.is_quiet = True
    assert whole.record(1, 0, now=4000) == []


def test_the_first_interval_of_the_steady_state_is_announced() -> None:
    steady = SendStatistics(10, 1000, now=0, steady=True)
    assert steady.record(4, 0, now=1000)[0] == "In steady state."
    assert len(steady.record(4, 0, now=2000)) == 1
    assert steady.total(now=2000).startswith("2 steady state records sent, ")


def test_what_was_read_is_shown_with_and_without_the_time_of_joining() -> None:
    begun, end = Read(0, 0, 0, 0), Read(2000, 10, 1024 * 1024, 1000)
    assert total_line(begun, end, "yyyy").split(", ", 2)[2] == "1.0000, 0.5000, 10, 5.0000, 1000, 1000, 1.0000, 10.0000"
    later = Read(3000, 40, 3 * 1024 * 1024, 1500)
    assert interval_line(end, later, "yyyy").split(", ", 1)[1] == (
        "0, 3.0000, 2.0000, 40, 30.0000, 500, 500, 4.0000, 60.0000"
    )
