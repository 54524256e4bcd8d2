"""Strips and old rules: pure functions of lanes."""

from __future__ import annotations

import json

import pytest

from highwater.lab.frame import Frame, Lane, NotARecording, Recording, Words, recorded
from highwater.lab.old_rules import Sample, first_out_by_count
from highwater.lab.strip import Scale


def lane(end: int, high_watermark: int, *, start: int = 0, epochs: tuple[tuple[int, int], ...] = ((0, 0),)) -> Lane:
    return Lane(1, "up", True, 0, start, high_watermark, end, epochs, True)


def test_cells_of_all_lanes_stand_below_each_other() -> None:
    leader, follower = lane(6, 4, epochs=((0, 0), (2, 3))), lane(3, 2)
    scale = Scale([leader, follower], 80)
    assert scale.strip(leader).plain == "e0[0][1] [2]e2[3]┃(4)(5)"
    assert scale.strip(follower).plain == "e0[0][1]┃(2)"


def test_deleted_records_are_dots_and_an_epoch_without_records_is_named_at_the_end() -> None:
    whole, cut = lane(4, 4, epochs=((0, 0), (1, 4))), lane(4, 4, start=2, epochs=((0, 2),))
    scale = Scale([whole, cut], 80)
    assert scale.strip(whole).plain == "e0[0][1]  [2][3]┃e1"
    assert scale.strip(cut).plain == "   ·  · e0[2][3]┃"


@pytest.mark.parametrize("width", [20, 52, 92])
def test_a_long_log_is_a_bar_that_fits(width: int) -> None:
    leader, follower = lane(1000, 500), lane(250, 0)
    scale = Scale([leader, follower], width)
    assert not scale.has_cells
    for each in (leader, follower):
        assert len(scale.strip(each).plain) <= width
    bar = scale.strip(leader).plain
    assert bar.count("█") == pytest.approx(bar.count("░"), abs=1) and bar.count("┃") == 1


def test_an_empty_log_has_only_its_high_watermark() -> None:
    empty = lane(0, 0, epochs=())
    assert Scale([empty], 80).strip(empty).plain == "┃"


def test_by_count_a_follower_is_out_at_the_first_sample_beyond_the_limit() -> None:
    trace = [Sample(0.0, 1, 1), Sample(0.1, 101, 1), Sample(0.2, 102, 1), Sample(0.3, 300, 1)]
    assert first_out_by_count(trace, 100) == Sample(0.2, 102, 1)
    assert first_out_by_count(trace, 400) is None


def test_a_recording_from_before_reads_were_shown_is_still_read() -> None:
    frame = Frame(
        Words("a", "가"), Words("b", "나"), {"n": 1}, (lane(1, 1),), files=((Words("c", "다"), "d"), ("e", "f"))
    )
    recording = Recording("old", Words("t", "제목"), [frame])
    head, row = recording.lines()
    old = {name: value for name, value in json.loads(row).items() if name != "reads"}
    assert recorded(f"{head}\n{json.dumps(old)}\n") == recording


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"experiment": "x", "title": ["a"]}', "not json", '{"experiment"'])
def test_what_is_no_recording_is_refused(text: str) -> None:
    with pytest.raises(NotARecording):
        recorded(text)
