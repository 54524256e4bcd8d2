"""Strips and old rules: pure functions of lanes."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from highwater.lab.drawing import drawn
from highwater.lab.frame import Frame, Lane, NotARecording, Recording, Words, recorded
from highwater.lab.history import leader_of, parts_at
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


def replica(node: int, end: int, high_watermark: int, epochs: tuple[tuple[int, int], ...], state: str = "up") -> Lane:
    return Lane(node, state, node == 2, epochs[-1][0], 0, high_watermark, end, epochs, node != 1)


OLD, NEW = replica(1, 5, 3, ((0, 0),), "down"), replica(2, 6, 6, ((0, 0), (1, 3)))
"""Both have offsets 3 and 4: the old leader of epoch 0, the new one of epoch 1."""


def test_records_that_the_new_leader_does_not_have_look_unlike_its_own() -> None:
    scale = Scale([OLD, NEW], 80)
    assert scale.strip(OLD).plain == "e0[0][1][2]┃  {3}{4}"
    assert scale.strip(NEW).plain == "e0[0][1][2] e1[3][4][5]┃"
    assert scale.parts_at(OLD) == 3 and scale.parts_at(NEW) is None


@pytest.mark.parametrize(
    ("lane", "leader", "place"),
    [
        (replica(1, 5, 3, ((0, 0),)), replica(2, 3, 3, ((0, 0), (1, 3))), 3),  # the leader has no record there yet
        (replica(1, 6, 3, ((0, 0), (1, 4))), replica(2, 4, 3, ((0, 0), (2, 2))), 2),  # of an epoch it never saw
        (replica(1, 2, 2, ((0, 0),)), replica(2, 2, 2, ((0, 0), (2, 1))), 1),  # committed once: an unclean election
        (replica(1, 3, 3, ((0, 0),)), replica(2, 6, 6, ((0, 0), (1, 3))), None),  # only behind
        (replica(1, 6, 5, ((0, 0),)), replica(2, 5, 5, ((0, 0),)), None),  # the leader was seen a moment before
        (replica(1, 6, 5, ((0, 0), (3, 5))), replica(2, 5, 5, ((0, 0),)), None),  # it does not know that it leads yet
    ],
)
def test_a_replica_parts_from_its_leader_where_their_epochs_differ(lane: Lane, leader: Lane, place: int | None) -> None:
    assert parts_at(lane, leader) == place


def test_what_the_leader_has_deleted_is_no_difference() -> None:
    behind, leader = replica(1, 4, 4, ((0, 0), (1, 1))), replace(NEW, log_start=3, epochs=((1, 3),))
    assert parts_at(behind, leader) is None


def test_nobody_parts_from_a_dead_leader_and_a_simulated_lane_from_none() -> None:
    dead = replace(NEW, state="down")
    assert Scale([OLD, dead], 80).parts_at(OLD) is None and parts_at(OLD, leader_of([OLD])) is None
    assert parts_at(replace(OLD, label=Words("simulated", "시뮬레이션")), NEW) is None


@pytest.mark.parametrize("width", [32, 52, 92])
def test_in_a_long_log_every_end_mark_and_epoch_has_the_same_column_in_all_lanes(width: int) -> None:
    old = replica(1, 502, 499, ((0, 0),), "down")
    new, other = replica(2, 700, 700, ((0, 0), (1, 499))), replica(3, 700, 699, ((0, 0), (1, 499)))
    scale = Scale([old, new, other], width)
    strips = [scale.strip(each).plain for each in (old, new, other)]
    assert not scale.has_cells and max(map(len, strips)) <= width
    committed = strips[0].index("┃")
    assert {strip[:committed] for strip in strips} == {"e0" + "█" * (committed - 2)}
    assert strips[0][committed:] == "┃  x" and strips[1][committed + 1 : committed + 4] == "e1█"
    assert strips[1].endswith("█ █┃") and strips[2].endswith("█┃░") and len(strips[1]) == len(strips[2]) + 1


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "records that the leader lacks: 2, from offset 3 on"),
        ("ko", "리더에 없는 레코드: 2개, 오프셋 3부터"),
    ],
)
def test_the_lane_that_parts_from_the_leader_says_so_in_one_line(language: str, line: str) -> None:
    file = io.StringIO()
    frame = Frame(Words("t", "제목"), Words("x", "나"), {}, (OLD, NEW))
    Console(file=file, width=60, color_system=None).print(drawn(frame, 1, 1, language, 60))
    assert [told for told in file.getvalue().splitlines() if line in told], file.getvalue()
    assert file.getvalue().count(line[:8]) == 1


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
