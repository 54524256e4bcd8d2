"""What a table must do for a micro-batch to land in it exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

NEVER = -1
"""Spark counts batches from 0."""


class LandingError(Exception):
    """A batch that the table does not take, with what would have to change."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A whole Parquet file that no reader of the table sees yet."""

    location: str
    rows: int
    size: int


def has_landed(query_id: str, batch_id: int, last: int) -> bool:
    """Whether the batch is in the table whose last batch of the query is `last`.

    Spark tries the last batch again, never one before it. If it does, its checkpoint is older than the table: nobody
    knows then whether the batch has the rows that it had the first time, and to pass over it might lose some.
    """
    if batch_id < last:
        raise LandingError(
            f"the table has batch {last} of query {query_id}, and now comes batch {batch_id}: "
            f"the checkpoint is older than the table, or another driver runs the same query"
        )
    return batch_id == last


class Staging(Protocol):
    """Where tasks put their files. Travels to the executors, so it must pickle and be quick to load there."""

    def create(self, name: str) -> tuple[str, pa.NativeFile]:
        """The location of a new file, and the open file; it is called <name> and a suffix."""

    def seal(self, location: str) -> None:
        """Sees to it that a file that was closed survives a loss of power."""


class Table(Protocol):
    """The driver's side. A batch is known by its query and its number, and lands once however often it is tried."""

    def prepare(self, schema: pa.Schema) -> Staging:
        """Before any task: creates the table or adds the columns that it lacks. Raises LandingError."""

    def committed(self, query_id: str) -> int:
        """The last batch of the query that has landed, else NEVER."""

    def commit(self, query_id: str, batch_id: int, staged: Sequence[StagedFile], replace: bool = False) -> bool:
        """Makes the files rows of the table, all at once; with `replace`, its only rows.

        False: the batch had landed before, and the files are gone. After any error nobody knows, and the files stay.
        Raises LandingError for a batch before the last one.
        """

    def clean_up(self, older_than: timedelta) -> list[str]:
        """Removes files that no commit names, and none will since they are that old; gives their locations."""
