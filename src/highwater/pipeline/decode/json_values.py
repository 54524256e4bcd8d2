"""A column of JSON values as typed columns: a whole column at a time, and by hand only what does not fit.

Arrow's reader takes a stream of documents, so a value that holds two of them, or half of one, could shift every row
after it. `_Stream` says why that cannot happen here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from highwater.pipeline.decode.cells import Misfit, RowReader
from highwater.pipeline.decode.nullability import promised, relaxed
from highwater.pipeline.decode.odd_values import OddValues

FEW = 40
"""Where a row does not fit and Arrow cannot say which, rows are tried in parts of so many, and a part that does not
fit is read by hand: to start Arrow's reader costs as much as ten rows by hand."""

MOST_ODD = 0.2
"""Of the values, that may be read by hand at once: by hand, a row takes ten times as long."""

_WHITESPACE = " \t\r\n"
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_MICROSECOND, _LAST_MICROSECOND = _FIRST_DAY * 86_400_000_000, (_LAST_DAY + 1) * 86_400_000_000 - 1
"""Of the years 1 to 9999, which Spark and Python know; Arrow reads the year 0 as well."""
_EXACT = Context(prec=100)
_HINT = re.compile(r" in row (\d+)$")


class _Unreadable(Exception):
    """Arrow cannot read these values together; `row` is the one to blame where it said so."""

    def __init__(self, row: int | None = None) -> None:
        super().__init__(row)
        self.row = row


@dataclass(frozen=True, slots=True)
class Typed:
    """What became of a column of values: typed rows with the index of their value, and reasons by index."""

    rows: pa.Table
    at: pa.Array
    reasons: dict[int, str]


class JsonReader:
    """Reads JSON objects as rows of `schema`: fields that it does not name are ignored, missing ones are null."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._by_hand = RowReader(schema)
        self._is_fast = not any(_needs_hands(field.type) for field in schema)
        self._is_wary = False
        """Whether there was trouble with the last block: then odd values are taken out before the next one is tried."""

    @cached_property
    def _parsing(self) -> pa.json.ParseOptions:
        # Nullability is judged by `_suspects`, row by row; dates come as text.
        wire = pa.schema([pa.field(field.name, _on_the_wire(field.type)) for field in self.schema])
        return pa.json.ParseOptions(explicit_schema=wire, unexpected_field_behavior="ignore")

    @cached_property
    def _odd_values(self) -> OddValues:
        return OddValues(self.schema)

    @cached_property
    def _nullable(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, relaxed(field.type)) for field in self.schema])

    def read(self, values: pa.BinaryArray) -> Typed:
        """`values` without nulls. Rows stay in order."""
        if self._is_fast:
            promising, hands = _sorted_out(values)
            at, table, unfit = self._read_whole(values.take(promising), promising)
            hands += unfit
        else:
            at, table, hands = pa.array([], pa.int64()), self._nullable.empty_table(), list(range(len(values)))
        if not hands:
            return Typed(self._as_promised(table), at, {})
        rows, reasons = {}, {}
        for index in sorted(hands):
            try:
                rows[index] = self._by_hand.read(values[index].as_py())
            except Misfit as misfit:
                reasons[index] = str(misfit)
        if not rows:
            return Typed(self._as_promised(table), at, reasons)
        at = pa.concat_arrays([at, pa.array(rows, pa.int64())])
        table = pa.concat_tables([table, pa.Table.from_pylist(list(rows.values()), self._nullable)])
        order = pc.sort_indices(at)
        return Typed(self._as_promised(table.take(order)), at.take(order), reasons)

    def _as_promised(self, table: pa.Table) -> pa.Table:
        columns = zip(table.columns, self.schema, strict=True)
        typed = [promised(column.combine_chunks(), field.type) for column, field in columns]
        return pa.Table.from_arrays(typed, schema=self.schema)

    def _read_whole(self, values: pa.BinaryArray, at: pa.Array) -> tuple[pa.Array, pa.Table, list[int]]:
        """What Arrow can read, with the indexes of the values (`at` has them); then those to be read by hand."""
        unfit: list[int] = []
        table = None if self._is_wary else self._tried(values)
        for weed in (self._odd_ones, self._named_ones):
            if table is not None:
                break
            out = weed(values)
            unfit += at.filter(out).to_pylist()
            values, at = values.filter(pc.invert(out)), at.filter(pc.invert(out))
            table = self._tried(values)
        if table is None:
            table, out = self._read_in_parts(values)
            unfit += at.filter(out).to_pylist()
            at = at.filter(pc.invert(out))
        self._is_wary = bool(unfit)
        suspects = _suspects(self.schema, table)
        if suspects is None:
            return at, table, unfit
        fit = pc.invert(suspects)
        return at.filter(fit), table.filter(fit), unfit + at.filter(suspects).to_pylist()

    def _tried(self, values: pa.BinaryArray) -> pa.Table | None:
        """None where Arrow cannot read them together."""
        if not len(values):
            return self._nullable.empty_table()
        try:
            return self._parsed(_Stream(values).part(0, len(values)), len(values))
        except _Unreadable:
            return None

    def _odd_ones(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """None of them where there are so many that the guess must be wrong."""
        odd = self._odd_values.find(values)
        return odd if odd.true_count <= MOST_ODD * len(values) else _flags(len(values))

    def _named_ones(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Those that Arrow names, one with each attempt: it stops there, so the next one begins behind it.

        Where there are many, the first of them: more attempts would cost more than to read the values by hand.
        """
        stream, start = _Stream(values), 0
        named: list[int] = []
        while start < len(values) and len(named) <= len(values) // FEW:
            try:
                self._parsed(stream.part(start, len(values)), len(values) - start)
                break
            except _Unreadable as failure:
                if failure.row is None or start + failure.row >= len(values):
                    break
                named.append(start + failure.row)
                start = named[-1] + 1
        return _flags(len(values), named)

    def _read_in_parts(self, values: pa.BinaryArray) -> tuple[pa.Table, pa.BooleanArray]:
        """What can be read of a whole that was refused for no known value, and which values are in the other parts."""
        stream, read = _Stream(values), [self._nullable.empty_table()]
        unfit: list[int] = []
        for start in range(0, len(values), FEW):
            end = min(start + FEW, len(values))
            try:
                read.append(self._parsed(stream.part(start, end), end - start))
            except _Unreadable:
                unfit += range(start, end)
        return pa.concat_tables(read), _flags(len(values), unfit)

    def _parsed(self, stream: pa.Buffer, documents: int) -> pa.Table:
        reading = pa.json.ReadOptions(use_threads=False, block_size=stream.size + 1)
        try:
            table = pa.json.open_json(pa.BufferReader(stream), reading, self._parsing).read_all()
            if table.num_rows != documents:
                raise _Unreadable
            return table if table.schema == self._nullable else table.cast(self._nullable)
        except pa.ArrowInvalid as error:
            hint = _HINT.search(str(error))
            raise _Unreadable(int(hint[1]) if hint else None) from error


class _Stream:
    """Values joined to one stream of documents. As many documents as values means: one in each.

    Every value begins with `{` and ends with `}` (`_sorted_out`). No string runs over the newline between two values,
    for a string holds no raw newline. So where a value ends inside a document, a `}` would be followed by a `{`, which
    no document allows. Every value ends with a document, then, and holds at least one; and a count that is right
    leaves no room for a second. A NUL would end the stream before its end, so there is none.
    """

    def __init__(self, values: pa.BinaryArray) -> None:
        row = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        self._bytes = pc.binary_join(row, b"\n")[0].as_buffer()
        self._ends = pc.cumulative_sum(pc.add(pc.binary_length(values).cast(pa.int64()), 1))

    def part(self, start: int, end: int) -> pa.Buffer:
        first = self._ends[start - 1].as_py() if start else 0
        return self._bytes.slice(first, self._ends[end - 1].as_py() - 1 - first)


def _sorted_out(values: pa.BinaryArray) -> tuple[pa.Array, list[int]]:
    """The indexes of values that can be joined (see `_Stream`), and of those that must be read by hand."""
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        whole = pa.array([_is_text(value) for value in values.to_pylist()])
        indexes = pa.array(range(len(values)), pa.int64())
        promising, others = _sorted_out(values.filter(whole))
        return indexes.filter(whole).take(promising), [
            *indexes.filter(pc.invert(whole)).to_pylist(),
            *indexes.filter(whole).take(pa.array(others, pa.int64())).to_pylist(),
        ]
    trimmed = pc.ascii_trim(texts, _WHITESPACE)
    braced = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    promising = pc.and_not(braced, pc.match_substring(trimmed, "\0"))
    indexes = pa.array(range(len(values)), pa.int64())
    if pc.all(promising).as_py() is not False:
        return indexes, []
    return indexes.filter(promising), indexes.filter(pc.invert(promising)).to_pylist()


def _flags(count: int, at: Sequence[int] = ()) -> pa.BooleanArray:
    return pc.is_in(pa.array(range(count), pa.int64()), pa.array(at, pa.int64()))


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _needs_hands(kind: pa.DataType) -> bool:
    """Arrow reads no maps from JSON, and takes the text of a binary for its bytes."""
    return pa.types.is_map(kind) or pa.types.is_binary(kind) or any(map(_needs_hands, _inner(kind)))


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(index).type for index in range(kind.num_fields)]


def _on_the_wire(kind: pa.DataType) -> pa.DataType:
    """What Arrow's reader is asked for: it takes dates for numbers of days."""
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _on_the_wire(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _on_the_wire(kind.value_type)))
    return kind


def _suspects(schema: pa.Schema, table: pa.Table) -> pa.Array | None:
    """The rows that Arrow has read and that may not fit all the same; None where there are none."""
    found = None
    for field in schema:
        mask = _suspicious(field, table.column(field.name).combine_chunks())
        if mask is not None:
            found = mask if found is None else pc.or_(found, mask)
    return found if found is not None and pc.any(found).as_py() else None


def _outside(column: pa.Array, first: int | Decimal, last: int | Decimal) -> pa.Array:
    return pc.fill_null(pc.or_(pc.less(column, first), pc.greater(column, last)), False)


def _suspicious(field: pa.Field, column: pa.Array) -> pa.Array | None:
    """Where a required value is missing, a number too large for its type, or a day in no year from 1 to 9999.

    One flag per entry of `column`.
    """
    masks: list[Any] = [] if field.nullable else [pc.is_null(column)]
    if field.type == pa.float32():
        masks.append(pc.fill_null(pc.is_inf(column), False))
    elif pa.types.is_decimal(field.type):
        # Arrow looks at the scale, and takes as many digits as the bits have room for.
        largest = Decimal(10**field.type.precision - 1).scaleb(-field.type.scale, _EXACT)
        masks.append(_outside(column, largest.copy_negate(), largest))
    elif pa.types.is_timestamp(field.type):
        masks.append(_outside(column.cast(pa.int64()), _FIRST_MICROSECOND, _LAST_MICROSECOND))
    elif pa.types.is_date(field.type):
        masks.append(_outside(column.cast(pa.int32()), _FIRST_DAY, _LAST_DAY))
    elif pa.types.is_struct(field.type):
        for index, inner in enumerate(field.type):
            # Under a struct that is null nothing is missing: `flatten` hands its nulls down, so they are taken out.
            mask = _suspicious(inner, pc.struct_field(column, index))
            if mask is not None:
                masks.append(pc.and_(mask, pc.is_valid(column)))
    elif pa.types.is_list(field.type):
        mask = _suspicious(field.type.value_field, column.flatten())
        if mask is not None and pc.any(mask).as_py():
            rows = pc.list_parent_indices(column).filter(mask)
            masks.append(pc.is_in(pa.array(range(len(column)), rows.type), rows))
    if not masks:
        return None
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.or_(mask, other)
    return mask
