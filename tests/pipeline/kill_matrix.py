"""The kill matrix: who dies, at which moment of a batch, where Spark runs, and where the table lies.

Pairwise: every two values of different columns meet in some cell. Most mistakes need no more than two things to come
together, and all combinations would take hours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

VICTIMS = ("broker", "driver", "executor")
MOMENTS = ("planned", "fetched", "before-commit", "after-commit")
PLACES = ("local", "standalone")
STORES = ("disk", "s3")
KINDS = ("delta", "iceberg", "parquet")
MODES = ("direct", "connector")
COLUMNS = (VICTIMS, MOMENTS, PLACES, STORES, KINDS, MODES)
MOST_CELLS = 24

Pair = frozenset[tuple[int, str]]


class Cell(NamedTuple):
    victim: str
    moment: str
    place: str
    store: str
    kind: str
    mode: str

    @property
    def run(self) -> Run:
        return Run(self.place, self.store, self.kind, self.mode)


class Run(NamedTuple):
    """What the cells have in common that one command can play, one after the other."""

    place: str
    store: str
    kind: str
    mode: str


FEW = (
    Cell("driver", "before-commit", "local", "disk", "delta", "direct"),
    Cell("executor", "planned", "local", "disk", "delta", "direct"),
    Cell("broker", "after-commit", "local", "disk", "delta", "direct"),
    Cell("executor", "fetched", "standalone", "s3", "iceberg", "connector"),
    Cell("driver", "after-commit", "standalone", "s3", "iceberg", "connector"),
    Cell("broker", "planned", "standalone", "s3", "iceberg", "connector"),
)
"""For every run of the tests: each value is there, and two starts of Spark are enough."""


def is_possible(cell: Cell) -> bool:
    """A Parquet table is refused in an object store."""
    return (cell.kind, cell.store) != ("parquet", "s3")


def pairs(cell: Cell) -> set[Pair]:
    return {frozenset(each) for each in combinations(enumerate(cell), 2)}


def pairwise_cells() -> list[Cell]:
    """The cell that brings the most new pairs, the first of equals, until no pair is left."""
    possible = [cell for values in product(*COLUMNS) if is_possible(cell := Cell(*values))]
    left = {pair for cell in possible for pair in pairs(cell)}
    chosen: list[Cell] = []
    while left:
        best = max(possible, key=lambda cell: len(pairs(cell) & left))
        chosen.append(best)
        left -= pairs(best)
    return chosen


def by_run(cells: Sequence[Cell]) -> Iterator[tuple[Run, list[Cell]]]:
    for run in dict.fromkeys(cell.run for cell in cells):
        yield run, [cell for cell in cells if cell.run == run]
