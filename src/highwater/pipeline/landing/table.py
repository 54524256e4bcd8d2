"""What a table must do for a micro-batch to land in it exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from highwater.pipeline.landing.partitioning import Partitioning, Values
from highwater.pipeline.landing.position import Position
from highwater.pipeline.landing.rule import Batch, Known
from highwater.pipeline.landing.statistics import ColumnRange

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A whole Parquet file that no reader of the table sees yet."""

    location: str
    rows: int
    size: int
    ranges: tuple[ColumnRange, ...] = ()
    partition: Values = ()
    """Of the fields by which the table is partitioned."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a table has, as of one version of it."""

    files: tuple[str, ...]
    """Paths of all Parquet files with its rows."""
    columns: tuple[str, ...]
    positions: Mapping[str, Position]
    """By landing."""
    constants: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """By file: the columns that it does not have since they are the same in all of its rows."""


class Staging(Protocol):
    """Where tasks put their files. Travels to the executors, so it must pickle and be quick to load there."""

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that the table does not let be null."""

    @property
    def partitioning(self) -> Partitioning:
        """How rows are shared out among files."""

    def create(self, name: str) -> tuple[str, pa.NativeFile]:
        """The location of a new file, and the open file; it is called <name> and a suffix."""

    def seal(self, location: str) -> None:
        """Sees to it that a file that was closed survives a loss of power."""


class Table(Protocol):
    """The driver's side. What a batch brings lands once, however often and under whatever number it is tried."""

    def prepare(self, schema: pa.Schema) -> Staging:
        """Before any task: creates the table or adds the columns that it lacks. Raises LandingError."""

    def exists(self) -> bool:
        """Makes nothing."""

    def known(self, landing_id: str, query_id: str = "") -> Known:
        """What the table remembers; without a query, of the landing alone."""

    def contents(self) -> Contents:
        """Files and positions that belong together, though batches land meanwhile. Raises LandingError for a table
        whose files say more than its rows."""

    def commit(self, batch: Batch, staged: Sequence[StagedFile], replace: bool = False) -> bool:
        """Makes the files rows of the table, all at once; with `replace`, its only rows. Moves the position with them.

        False: the batch had landed before, and the files are gone. After an error it is unknown whether the batch has
        landed, and the files stay.
        Raises LandingError for a batch that does not fit what the table has: see `rule`.
        """

    def compact(self, target: int, is_stopped: Callable[[], bool]) -> int:
        """Rewrites small files as files of about `target` bytes, a group at a time; gives how many files are gone.

        Rows and positions stay as they are. A batch that lands meanwhile lands; a group whose files another writer has
        removed meanwhile is left for the next time.
        """

    def clean_up(self, older_than: timedelta) -> list[str]:
        """Removes files that no commit names, and none will since they are that old; gives their locations."""
