"""What the mark of a damaged log says, and for how long."""

from __future__ import annotations

import pytest

from highwater.log import names
from highwater.log.mark import Mark
from highwater.log.scan import BadBatch
from highwater.sim import Simulation
from tests.unit.log.test_faults import QUICK, Machine

FIRST, SECOND, LAST = (f"{base:020d}.log" for base in range(3))


def marked(machine: Machine) -> Mark:
    data = machine.storage.durable_bytes(machine.log.directory / names.DAMAGE_MARK)
    return Mark("") if data is None else Mark.decode(data)


def found_damaged(machine: Machine, *segments: int) -> None:
    for at in segments:
        path = machine.log.segments[at].file.path
        machine.world.call(machine.log.found_damaged, BadBatch(path, 0, "rotten"))


def three_segments(sim: Simulation) -> Machine:
    machine = Machine(sim, segment_bytes=70)
    for value in (b"a", b"b", b"c"):
        machine.append(value)
    assert [segment.file.path.name for segment in machine.log.segments] == [FIRST, SECOND, LAST]
    return machine


def test_a_mark_names_every_damaged_segment() -> None:
    with Simulation(2, QUICK) as sim:
        machine = three_segments(sim)
        found_damaged(machine, 0, 1)
        sim.run(sim.until(lambda: marked(machine).segments == (FIRST, SECOND)))
        assert "rotten" in marked(machine).why


def test_a_mark_that_is_there_is_written_again_for_another_segment() -> None:
    with Simulation(2, QUICK) as sim:
        machine = three_segments(sim)
        found_damaged(machine, 1)
        sim.run(sim.until(lambda: marked(machine).segments == (SECOND,)))
        found_damaged(machine, 0)
        sim.run(sim.until(lambda: set(marked(machine).segments) == {FIRST, SECOND}))


def test_the_next_start_adds_what_it_finds_to_the_mark_of_the_last() -> None:
    with Simulation(2, QUICK) as sim:
        machine = three_segments(sim)
        found_damaged(machine, 0)
        sim.run(sim.until(lambda: marked(machine).segments == (FIRST,)))
        machine.restart(power_loss=False)
        assert machine.log.incomplete is not None
        found_damaged(machine, 1)
        sim.run(sim.until(lambda: marked(machine).segments == (FIRST, SECOND)))


@pytest.mark.parametrize(
    ("mark", "present", "left"),
    [
        (Mark("why", (FIRST, SECOND)), [SECOND, LAST], Mark("why", (SECOND,))),
        (Mark("why", (FIRST, SECOND)), [LAST], None),
        (Mark("why"), [LAST], Mark("why")),
    ],
)
def test_a_mark_holds_while_one_of_its_segments_is_there(mark: Mark, present: list[str], left: Mark | None) -> None:
    assert mark.holds_with(present) == left
    assert Mark.decode(mark.encode()) == mark


@pytest.mark.parametrize(
    ("known", "wanted", "covers"),
    [
        (Mark("a"), Mark("b", (FIRST,)), True),
        (Mark("a"), Mark("b"), True),
        (Mark("a", (FIRST,)), Mark("b"), False),
        (Mark("a", (FIRST,)), Mark("b", (FIRST,)), True),
        (Mark("a", (FIRST,)), Mark("b", (FIRST, SECOND)), False),
    ],
)
def test_a_mark_covers_another_if_it_lasts_as_long(known: Mark, wanted: Mark, covers: bool) -> None:
    assert known.covers(wanted) is covers


def test_an_empty_mark_lasts() -> None:
    assert Mark.decode(b"") == Mark("an empty mark")
