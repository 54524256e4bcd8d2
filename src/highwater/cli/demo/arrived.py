"""Orders that have arrived, to be checked by their numbers, some at a time."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from highwater.audit import Read
from highwater.cli.demo.orders import PARTITIONS, TOPIC, Order, order_of
from highwater.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow.compute as pc

SHELF = 1 << 14


class Arrived(Protocol):
    """Each order, as often as it has arrived."""

    def numbered(self, numbers: range) -> list[Read]: ...

    def others(self, numbers: range) -> list[Read]:
        """All values that have no such number, or no number at all."""


class Kept:
    """Orders from a reader. Each takes 17 bytes, because an order can be made again from its number."""

    def __init__(self) -> None:
        self._shelves: dict[int, tuple[array[int], array[int], array[int]]] = {}
        """The numbers, partitions and offsets of a group of orders each."""
        self._odd: list[Read] = []
        """Values that differ from the order of their number."""
        self.count = 0

    def take(self, read: Read, number: int | None) -> None:
        """`number` is the number in the value; None if it has none."""
        self.count += 1
        if number is None or not 0 <= number < 2**63 or order_of(number).value != read.value:
            self._odd.append(read)
            return
        shelf = self._shelves.setdefault(number // SHELF, (array("q"), array("b"), array("q")))
        for column, entry in zip(shelf, (number, read.partition.partition, read.offset), strict=True):
            column.append(entry)

    def numbered(self, numbers: range) -> list[Read]:
        shelves = range(numbers.start // SHELF, -(-numbers.stop // SHELF))
        return [read for shelf in shelves for read in self._on(shelf, numbers)]

    def others(self, numbers: range) -> list[Read]:
        found = [read for shelf in self._shelves for read in self._on(shelf, numbers, inside=False)]
        return [*self._odd, *found]

    def _on(self, shelf: int, numbers: range, *, inside: bool = True) -> list[Read]:
        return [
            Read(PARTITIONS[partition], offset, order_of(number).value)
            for number, partition, offset in zip(*self._shelves.get(shelf, ((), (), ())), strict=True)
            if (number in numbers) is inside
        ]


class InTable:
    """Orders in the Delta table, read by the Delta library and not by Spark, as the values that were sent."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def numbered(self, numbers: range) -> list[Read]:
        import pyarrow.compute as pc

        id = pc.field("id")
        return self._where((id >= numbers.start) & (id < numbers.stop))

    def others(self, numbers: range) -> list[Read]:
        import pyarrow.compute as pc

        id = pc.field("id")
        return self._where(id.is_null() | (id < numbers.start) | (id >= numbers.stop))

    def _where(self, condition: pc.Expression) -> list[Read]:
        from deltalake import DeltaTable
        from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

        if not DeltaTable.is_deltatable(self._path):
            return []
        # Threads of Arrow may still hold deltalake's file system, which is Python. They can abort a process that ends.
        files = SubTreeFileSystem(self._path, LocalFileSystem())
        columns = [*Order._fields, "_partition", "_offset"]
        table = DeltaTable(self._path).to_pyarrow_dataset(filesystem=files).to_table(columns=columns, filter=condition)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return [
            Read(TopicPartition(TOPIC, partition), offset, Order(*fields).value) for *fields, partition, offset in rows
        ]
