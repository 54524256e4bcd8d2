"""Faults that the simulated world must find: the mend of each taken back, and the one seed that notices.

Most mends are those of other tables, so that a line that moves is named once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.mutations import a, b, boundaries, c, disks, replication
from tests.mutations.mutation import Mutation
from tests.sim.hunts import HUNTS

_KNOWN = [each for table in (a, b, c, replication, boundaries, disks) for each in table.MUTATIONS]


def _known(fault: str, file: str, line: str = "") -> Mutation:
    """The one entry for that fault in that file, if need be by part of its line."""
    (found,) = {
        (each.line, each.replacement): each
        for each in _KNOWN
        if each.scenario == fault and each.file.endswith(file) and line in each.line
    }.values()
    return found


def _taken_back(file: str, line: str, replacement: str) -> Mutation:
    return Mutation("", "", f"src/highwater/{file}", line, replacement)


MENDS: Mapping[str, tuple[Mutation, ...]] = {
    "A2": (_known("A2", "replication/serving.py"),),
    "B10": (_known("B10", "controller/registration.py"),),
    "B14": (_known("B14", "replication/leader.py"),),
    "C3": (_known("C3", "log/durability.py"),),
    "C8": (_known("C8", "raft_node/raft_node.py"),),
    "F1 emptied": (
        _known("F1", "replication/leader.py"),
        _known("F1", "controller/alter_partition.py"),
        _known("F1", "controller/directories.py"),
        _taken_back(
            "broker/publisher.py",
            "if not dispensable or part.leader_epoch <= partition.epoch:",
            "if not dispensable:",
        ),
        _known("F41", "broker/publisher.py"),
    ),
    "F2 unregistered": (
        _taken_back(
            "partition/fetcher.py",
            "if self._closed or self._broker_epoch() < 0:",
            "if self._closed:",
        ),
        _known("F2", "broker/k01_fetch.py"),
        _taken_back(
            "replication/leader.py",
            "return epoch is not None and epoch == self.brokers.get(replica)",
            "return epoch is not None and epoch in (-1, self.brokers.get(replica))",
        ),
        _known("F2", "controller/alter_partition.py"),
    ),
    "F3 failed batch": (_known("F3", "partition/fetcher.py", "elif"),),
    "F6": (_known("F6", "replication/reconciliation.py"),),
    "F7": (
        _known("F1", "replication/leader.py"),
        _known("F1", "controller/alter_partition.py"),
        _known("F1", "controller/directories.py"),
        _taken_back("broker/publisher.py", "if dispensable or not is_lost(part, broker.node_id):", "if True:"),
    ),
    "F8": (_known("F8", "raft_node/raft_node.py", "extend"),),
    "F9 made": (_known("F9", "broker/missing.py", "lose"), _known("F9", "broker/missing.py", "_wake_at")),
    "F10 failed cut": (
        _taken_back(
            "log/truncation.py",
            "except BadBatch as bad:\nlog.found_damaged(bad)\nreturn False\n"
            "except OSError as failed:\nlog.storage_failed(failed)",
            "except BadBatch as bad:\n    raise bad\nexcept OSError as failed:\n    raise failed",
        ),
        _taken_back(
            "partition/fetcher.py",
            'partition.cutting = self._world.spawn(f"{what} {partition.tp}", cut(), partition.log.storage_failed)',
            'partition.cutting = self._world.spawn(f"{what} {partition.tp}", cut())',
        ),
    ),
    "F194": (_known("F194", "broker/k00_produce.py"),),
}
"""By the names of hunts; a name begins with its scenario or the number of its fault."""

MUTATIONS: list[Mutation] = [
    replace(
        MENDS[hunt.name][0],
        scenario=hunt.name,
        test=f"tests/sim/test_hunts.py::test_seed[{hunt.name}]",
        also=MENDS[hunt.name][1:],
    )
    for hunt in HUNTS
]
