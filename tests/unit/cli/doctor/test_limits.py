"""The limits of a process, as /proc and the control groups tell them."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.cli.doctor.finding import Finding, State
from highwater.cli.doctor.limits import LEAST_DESCRIPTORS, LEAST_MEMORY, examine_process

PID = 7
MIB = 1 << 20


class Machine:
    """What a machine with one process shows."""

    def __init__(self, home: Path) -> None:
        self.proc, self.groups = home / "proc", home / "cgroup"
        self.of_process = self.proc / str(PID)
        (self.of_process / "fd").mkdir(parents=True)
        self.groups.mkdir()
        self.limit("65536", "unlimited")
        (self.of_process / "status").write_text("Name:\tnode\nVmSize:\t  204800 kB\n")
        (self.of_process / "cgroup").write_text("0::/slice/node\n")
        (self.groups / "slice" / "node").mkdir(parents=True)
        self.available(8000)

    def limit(self, files: str, space: str) -> None:
        (self.of_process / "limits").write_text(
            "Limit                     Soft Limit           Hard Limit           Units\n"
            f"Max open files            {files}                 65536                files\n"
            f"Max address space         {space}            unlimited            bytes\n"
        )

    def available(self, mib: int) -> None:
        self.proc.joinpath("meminfo").write_text(f"MemTotal: 9000000 kB\nMemAvailable: {mib * 1024} kB\n")

    def group(self, path: str, bound: str, taken: int) -> None:
        (self.groups / path / "memory.max").write_text(f"{bound}\n")
        (self.groups / path / "memory.current").write_text(f"{taken}\n")

    def opened(self, count: int) -> None:
        for number in range(count):
            (self.of_process / "fd" / str(number)).touch()

    def examined(self) -> list[Finding]:
        return list(examine_process("node 1", PID, self.proc, self.groups))

    def wrong(self) -> list[str]:
        return [each.what for each in self.examined() if each.state is State.WRONG]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_process_with_room_is_well(machine: Machine) -> None:
    machine.opened(12)
    files, memory = machine.examined()
    assert (files.state, memory.state) == (State.WELL, State.WELL)
    assert files.what == "node 1 (pid 7) may open 65536 files, and has 12 open"
    assert memory.what == "node 1 (pid 7) may take 8000 MiB more of memory (what is available on this machine)"


@pytest.mark.parametrize(("files", "is_wrong"), [(LEAST_DESCRIPTORS - 1, True), (LEAST_DESCRIPTORS, False)])
def test_too_few_descriptors_are_told_with_what_they_are_enough_for(
    machine: Machine, files: int, is_wrong: bool
) -> None:
    machine.limit(str(files), "unlimited")
    found = machine.wrong()
    assert bool(found) is is_wrong
    assert all("may open only 4095 files: room for 2688 connections and 1023 files of logs" in each for each in found)


def test_a_process_that_has_nearly_all_its_files_open_is_told(machine: Machine) -> None:
    machine.limit(str(LEAST_DESCRIPTORS), "unlimited")
    machine.opened(3277)
    assert machine.wrong() == ["node 1 (pid 7) has 3277 of the 4096 files open that it may open"]


def test_no_limit_of_files_is_well(machine: Machine) -> None:
    machine.limit("unlimited", "unlimited")
    assert machine.examined()[0].what == "node 1 (pid 7) may open any number of files"


def test_a_machine_without_memory_is_told(machine: Machine) -> None:
    machine.available(LEAST_MEMORY // MIB - 1)
    assert machine.wrong() == ["node 1 (pid 7) may take 255 MiB more of memory (what is available on this machine)"]


@pytest.mark.parametrize("path", ["slice/node", "slice"])
def test_the_bound_of_a_control_group_or_of_one_around_it_counts(machine: Machine, path: str) -> None:
    machine.group(path, str(512 * MIB), 500 * MIB)
    [wrong] = machine.wrong()
    assert wrong.endswith("may take 12 MiB more of memory (the bound of its control group, 512 MiB)")


def test_a_control_group_without_a_bound_does_not_count(machine: Machine) -> None:
    machine.group("slice/node", "max", 500 * MIB)
    assert not machine.wrong()


def test_a_limit_of_address_space_counts_what_is_taken_of_it(machine: Machine) -> None:
    machine.limit("65536", str(300 * MIB))
    [wrong] = machine.wrong()
    assert wrong.endswith("may take 100 MiB more of memory (its limit of address space, 300 MiB)")


def test_a_process_that_cannot_be_seen_is_not_judged(tmp_path: Path) -> None:
    [found] = examine_process("node 1", PID, tmp_path, tmp_path)
    assert found.state is State.UNKNOWN
    assert "as the user of the node" in found.remedy
