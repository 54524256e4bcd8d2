"""One JSON value as one row of typed cells, or the reason why it is none.

The careful reading: it takes what the fast one (`json_values`) cannot, and names what is wrong with a row.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from highwater.pipeline.decode.ddl import BadSchema

Cell = Callable[[Any, str], Any]
"""Takes a value that is not null and the path of its field; gives the cell or raises Misfit."""

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SHOWN = 40
_FLOAT32_MAX = 3.4028235677973366e38
"""From here on a number is nearer to infinity than to the largest float."""


class Misfit(ValueError):
    """A value that is not a row of the schema; the message is the reason that its record is kept with."""


class _Object(dict[str, Any]):
    """A JSON object that remembers which names it was given twice."""

    twice: frozenset[str] = frozenset()


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    found = _Object(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        found.twice = frozenset(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return found


class RowReader:
    """Rows of one schema. Raises BadSchema for a type that JSON has no form for."""

    def __init__(self, schema: pa.Schema) -> None:
        self._row = _struct_cell(list(schema))

    def read(self, value: bytes) -> dict[str, Any]:
        """The cells by field name. Raises Misfit."""
        return self._row(_parsed(value), "")  # type: ignore[no-any-return]


def _parsed(value: bytes) -> Any:
    try:
        return json.loads(value.decode(), object_pairs_hook=_object, parse_float=Decimal)
    except UnicodeDecodeError as error:
        raise Misfit(f"not JSON: byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise Misfit(f"not JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise Misfit("not JSON that can be read: nested too deeply") from error
    except ValueError as error:
        raise Misfit("not JSON that can be read: a number of thousands of digits") from error


def _cell(kind: pa.DataType) -> Cell:
    if pa.types.is_integer(kind):
        return _integer_cell(kind)
    if pa.types.is_floating(kind):
        return _float_cell(kind)
    if pa.types.is_decimal(kind):
        return _decimal_cell(kind)
    if pa.types.is_timestamp(kind):
        return _timestamp_cell(kind)
    if pa.types.is_struct(kind):
        return _struct_cell(list(kind))
    if pa.types.is_list(kind):
        return _list_cell(kind)
    if pa.types.is_map(kind):
        return _map_cell(kind)
    for is_kind, cell in _PLAIN_CELLS:
        if is_kind(kind):
            return cell
    raise BadSchema(f"the type {kind} has no form in JSON")


def _boolean_cell(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(path, "a boolean", value)
    return value


def _string_cell(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong(path, "a string", value)
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise Misfit(f"{_field(path)} holds half of a surrogate pair")
    return value


def _binary_cell(value: Any, path: str) -> bytes:
    try:
        return base64.b64decode(_string_cell(value, path), validate=True)
    except (binascii.Error, ValueError) as error:
        if isinstance(error, Misfit):
            raise
        raise Misfit(f"{_field(path)} is not base64: {_shown(value)}") from error


def _date_cell(value: Any, path: str) -> date:
    match = _DATE.fullmatch(_text(value, path, "a date"))
    if match is not None:
        try:
            return date(*map(int, match.groups()))
        except ValueError:
            pass  # The day does not exist: the same reason as for what is no date at all.
    raise Misfit(f"{_field(path)} is not a date (YYYY-MM-DD): {_shown(value)}")


def _timestamp_cell(kind: pa.DataType) -> Cell:
    def cell(value: Any, path: str) -> datetime:
        match = _TIMESTAMP.fullmatch(_text(value, path, "a timestamp"))
        when = None if match is None else _moment(match)
        if when is None:
            raise Misfit(f"{_field(path)} is not a timestamp (ISO 8601): {_shown(value)}")
        return when if kind.tz else when.replace(tzinfo=None)

    return cell


def _moment(match: re.Match[str]) -> datetime | None:
    """In UTC, cut to microseconds; no zone means UTC. None where the parts make no moment."""
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6])
    try:
        offset = _offset(zone)
        local = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micros)
        return local.replace(tzinfo=timezone(offset)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta()
    digits = zone[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if minutes > 59:
        raise ValueError(f"no such zone: {zone}")
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


def _integer_cell(kind: pa.DataType) -> Cell:
    limit = 1 << (kind.bit_width - 1)

    def cell(value: Any, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(path, "a whole number", value)
        if not -limit <= value < limit:
            raise Misfit(f"{_field(path)} is out of range for {kind}: {_shown(value)}")
        return value

    return cell


def _float_cell(kind: pa.DataType) -> Cell:
    limit = _FLOAT32_MAX if kind.bit_width == 32 else math.inf

    def cell(value: Any, path: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise _wrong(path, "a number", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        # NaN and the infinities are taken as words, as Spark does; a number too large for the type is none of them.
        if not isinstance(value, float) and abs(number) >= limit:
            raise Misfit(f"{_field(path)} is out of range for {kind}: {_shown(value)}")
        return number

    return cell


def _decimal_cell(kind: pa.DataType) -> Cell:
    precision, scale = kind.precision, kind.scale
    unit = Decimal(1).scaleb(-scale)

    def cell(value: Any, path: str) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise _wrong(path, "a decimal number", value)
        if isinstance(value, str) and not _DECIMAL.fullmatch(value):
            raise Misfit(f"{_field(path)} is not a decimal number: {_shown(value)}")
        with localcontext(prec=precision):
            try:
                exact = Decimal(value)
                fitted = exact.quantize(unit)
            except InvalidOperation as error:
                raise Misfit(
                    f"{_field(path)} is out of range for decimal({precision}, {scale}): {_shown(value)}"
                ) from error
        if not exact.is_finite() or fitted != exact:
            raise Misfit(f"{_field(path)} does not fit decimal({precision}, {scale}): {_shown(value)}")
        return fitted

    return cell


def _struct_cell(fields: list[pa.Field]) -> Cell:
    cells = [(field.name, field.nullable, _cell(field.type)) for field in fields]

    def cell(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, _Object):
            raise _wrong(path, "an object", value)
        row = {}
        for name, nullable, each in cells:
            inner = f"{path}.{name}" if path else name
            if name in value.twice:
                raise Misfit(f"{_field(inner)} is given twice")
            found = value.get(name)
            if found is None and not nullable:
                raise Misfit(f"required {_field(inner)} is missing or null")
            row[name] = None if found is None else each(found, inner)
        return row

    return cell


def _list_cell(kind: pa.DataType) -> Cell:
    element = _cell(kind.value_type)

    def cell(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise _wrong(path, "an array", value)
        return [None if each is None else element(each, f"{path}[{index}]") for index, each in enumerate(value)]

    return cell


def _map_cell(kind: pa.DataType) -> Cell:
    item = _cell(kind.item_type)

    def cell(value: Any, path: str) -> list[tuple[str, Any]]:
        if not isinstance(value, _Object):
            raise _wrong(path, "an object", value)
        if value.twice:
            raise Misfit(f"{_field(path)} has the key {min(value.twice)!r} twice")
        return [
            (_string_cell(name, path), None if each is None else item(each, f"{path}[{name!r}]"))
            for name, each in value.items()
        ]

    return cell


def _text(value: Any, path: str, wanted: str) -> str:
    if not isinstance(value, str):
        raise _wrong(path, f"{wanted} in a string", value)
    return value


def _wrong(path: str, wanted: str, value: Any) -> Misfit:
    return Misfit(f"wrong type of {_field(path)}: expected {wanted}, found {_shown(value)}")


def _field(path: str) -> str:
    return f"field {path}" if path else "the value"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = str(value) if isinstance(value, Decimal) else json.dumps(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_PLAIN_CELLS: list[tuple[Callable[[pa.DataType], bool], Cell]] = [
    (pa.types.is_boolean, _boolean_cell),
    (pa.types.is_string, _string_cell),
    (pa.types.is_binary, _binary_cell),
    (pa.types.is_date, _date_cell),
]
