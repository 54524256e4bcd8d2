"""How records are decoded, as a user says it: checked once, carried to every task, and only there made a decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from highwater.pipeline.decode.ddl import parse_schema
from highwater.pipeline.decode.decoder import (
    KEPT_COLUMNS,
    KEPT_PREFIX,
    REASON,
    Decoded,
    Decoder,
    JsonDecoder,
    NullValues,
    RawDecoder,
)

DECODINGS = ("raw", "json")
BAD_VALUE = "_bad_value"
BAD_REASON = "_bad_reason"
OPTIONS = ("decode", "schema", "keep", "nullValues", "deadLetterTopic")


def kept_beside(ddl: str, names: Sequence[str]) -> list[str]:
    """Those of `names` whose columns can stand beside the fields of a schema. Raises ValueError."""
    fields = parse_schema(ddl).names if ddl else []
    return [name for name in names if KEPT_PREFIX + name not in fields]


@dataclass(frozen=True, slots=True)
class Decoding:
    """Pickles with a task. Without `dead_letter_topic`, records that do not fit stay among the rows.

    They have null in every field then, and two more columns hold their value and the reason.
    """

    kind: str
    ddl: str = ""
    keep: tuple[str, ...] = ()
    null_values: NullValues = NullValues.ROW
    dead_letter_topic: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in DECODINGS:
            raise ValueError(f"decode is {self.kind!r}: it must be one of {', '.join(DECODINGS)}")
        unknown = [name for name in self.keep if name not in KEPT_COLUMNS]
        if unknown:
            raise ValueError(f"keep names {unknown[0]!r}: it can name {', '.join(KEPT_COLUMNS)}")
        if self.kind == "raw":
            self._check_raw()
            return
        if not self.ddl:
            raise ValueError("decode=json needs a schema, such as 'id BIGINT NOT NULL, note STRING'")
        taken = {KEPT_PREFIX + name for name in self.keep} | {BAD_VALUE, BAD_REASON}
        for field in JsonDecoder(parse_schema(self.ddl)).schema:
            if field.name in taken:
                raise ValueError(f"the schema's field {field.name} has the name of a column that is added to it")

    def _check_raw(self) -> None:
        """Nothing is read into raw values, so what is said of fields and of misfits means nothing."""
        for option, given in (("schema", self.ddl), ("deadLetterTopic", self.dead_letter_topic)):
            if given:
                raise ValueError(f"{option} is given, but decode=raw does not decode values: use decode=json")
        if self.null_values is not NullValues.ROW:
            raise ValueError(
                f"nullValues is {str(self.null_values)!r}, but decode=raw keeps every value: use decode=json"
            )

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Decoding | None:
        """From options of a reader or a table; names count in any case. None where none is given. Raises ValueError."""
        found = {name.lower(): value for name, value in options.items()}
        given = {name: found[name.lower()] for name in OPTIONS if name.lower() in found}
        if not given:
            return None
        if "decode" not in given:
            raise ValueError(
                f"{next(iter(given))} is given without decode, which must be one of {', '.join(DECODINGS)}"
            )
        null_values = given.get("nullValues", NullValues.ROW)
        if null_values not in list(NullValues):
            raise ValueError(f"nullValues is {null_values!r}: it must be one of {', '.join(NullValues)}")
        return cls(
            kind=given["decode"],
            ddl=given.get("schema", ""),
            keep=tuple(name.strip() for name in given.get("keep", "").split(",") if name.strip()),
            null_values=NullValues(null_values),
            dead_letter_topic=given.get("deadLetterTopic") or None,
        )

    @property
    def keeps_bad_rows(self) -> bool:
        return self.kind == "json" and self.dead_letter_topic is None

    def decoder(self) -> Decoder:
        if self.kind == "raw":
            return RawDecoder(self.keep) if self.keep else RawDecoder()
        return JsonDecoder(parse_schema(self.ddl), self.keep, self.null_values)

    def schema(self) -> pa.Schema:
        """Of the rows that come out in the end."""
        schema = self.decoder().schema
        if not self.keeps_bad_rows:
            return schema
        # A row that is kept although it does not fit has null in fields that are required otherwise.
        fields = [field.with_nullable(True) for field in schema]
        return pa.schema([*fields, pa.field(BAD_VALUE, pa.binary()), pa.field(BAD_REASON, pa.string())])

    def rows(self, decoded: Decoded) -> pa.RecordBatch:
        """What goes on: the rows, and the bad ones behind them where they are kept."""
        if not self.keeps_bad_rows:
            return decoded.rows
        schema, good, bad = self.schema(), decoded.rows, decoded.bad
        columns = []
        for field in schema:
            if field.name == BAD_VALUE:
                of_good, of_bad = pa.nulls(good.num_rows, field.type), bad.column("value")
            elif field.name == BAD_REASON:
                of_good, of_bad = pa.nulls(good.num_rows, field.type), bad.column(REASON)
            else:
                kept = field.name.removeprefix(KEPT_PREFIX)
                of_good = good.column(field.name)
                is_kept = field.name.startswith(KEPT_PREFIX) and kept in self.keep
                of_bad = bad.column(kept).cast(field.type) if is_kept else pa.nulls(bad.num_rows, field.type)
            columns.append(pa.concat_arrays([of_good, of_bad]) if bad.num_rows else of_good)
        return pa.RecordBatch.from_arrays(columns, schema=schema)
