"""What `pipeline land` draws on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from highwater.pipeline.dashboard import KEPT, Course, dashboard, sparkline
from highwater.pipeline.display import Display
from highwater.pipeline.job import JobStatus
from highwater.pipeline.query import Report
from tests.terminal import CONTROL

REPORT = Report(batch_id=3, records=1500, rows=1400, seconds=0.5, lag=20, query_id="q", files=2, size=700, bad=3)
AT = 10_000.0


def drawn(status: JobStatus, course: Course, now: float = AT, width: int = 120) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(dashboard(status, course, now))
    return [line.rstrip() for line in capture.get().splitlines()]


def finished(status: JobStatus, course: Course, report: Report, at: float) -> None:
    status.took(report, at)
    course.look(status)


def test_a_pipeline_that_begins_shows_that_nothing_is_known_yet() -> None:
    heading, *rows, counts = drawn(JobStatus("orders", started_at=AT - 5), Course())
    assert heading == "orders starting  for 5 s"
    assert [row.split() for row in rows] == [["throughput", "-"], ["lag", "-"], ["freshness", "-"]]
    assert counts == "0 records  0 rows  0 batches  0 files  0 B"


def test_throughput_lag_and_freshness_are_drawn_batch_by_batch() -> None:
    status, course = JobStatus("orders", started_at=AT - 200), Course()
    finished(status, course, replace(REPORT, records=750, lag=40), AT - 30)
    finished(status, course, REPORT, AT - 20)
    finished(status, course, replace(REPORT, lag=0, batch_id=5, seconds=1.0), AT - 10)
    status.restarts = 2
    heading, throughput, lag, freshness, counts = drawn(status, course)
    assert heading == "orders running  for 3 min  batch 5  batch time 1.00 s  2 restarts"
    assert throughput.split() == ["throughput", "▅█▅", "1,500", "records/s"]
    assert lag.split() == ["lag", "█▅▁", "0", "records"]
    # What was there when the last batch began is in the table, since it left no lag.
    assert freshness.split() == ["freshness", "▇██", "11", "s", "old"]
    assert counts == "3,750 records  4,200 rows  3 batches  6 files  2.1 KiB  9 did not fit"


def test_a_look_that_finds_nothing_new_makes_the_table_fresh() -> None:
    status, course = JobStatus("orders", started_at=AT - 200), Course()
    finished(status, course, replace(REPORT, lag=0), AT - 100)
    assert "freshness" in drawn(status, course)[3] and "100 s" not in drawn(status, course)[3]
    status.saw_nothing_new(AT - 2)
    course.look(status)
    assert drawn(status, course)[3].split()[-3:] == ["2", "s", "old"]
    assert len(course.ages) == 1, "a look is no batch"


def test_a_batch_that_leaves_something_makes_nothing_fresh() -> None:
    status = JobStatus("orders", started_at=AT - 200)
    status.took(replace(REPORT, lag=0), AT - 100)
    status.took(REPORT, AT)
    assert status.fresh_at == AT - 100.5


def test_the_last_trouble_stands_below() -> None:
    assert drawn(JobStatus("orders", trouble="a broker is gone"), Course())[-1] == "last trouble: a broker is gone"


def test_sparklines_go_from_nothing_to_the_largest_and_show_what_is_small() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 1, 1000]) == "▁▂█"
    course, status = Course(), JobStatus("orders")
    for number in range(KEPT + 10):
        finished(status, course, replace(REPORT, lag=number), AT + number)
    assert len(course.lags) == KEPT
    assert course.lags[-1] == KEPT + 9


def test_a_terminal_of_eighty_columns_shows_all_of_it() -> None:
    course, status = Course(), JobStatus("orders", started_at=AT)
    for number in range(KEPT):
        finished(status, course, replace(REPORT, records=10**6, lag=10**9), AT + number)
    lines = drawn(status, course, AT + KEPT, width=80)
    assert [line.split()[1] for line in lines[1:4]] == ["█" * KEPT, "█" * KEPT, lines[3].split()[1]]
    assert lines[1].endswith("2,000,000 records/s") and lines[2].endswith("1,000,000,000 records")
    assert "…" not in "".join(lines)


def test_on_a_terminal_the_dashboard_stays_below_what_went_wrong() -> None:
    output = io.StringIO()
    status = JobStatus("orders", started_at=AT)
    with Display(Console(file=output, width=100, force_terminal=True)) as display:
        status.took(REPORT)
        display.show(status)
        display.trouble("a broker is gone")
    lines = [CONTROL.sub("", line).strip() for line in output.getvalue().splitlines()]
    last = max(at for at, line in enumerate(lines) if line.startswith("throughput"))
    assert "a broker is gone" in lines[:last]
    assert lines[last].endswith("3,000 records/s")
    assert lines[last + 3].startswith("1,500 records")
