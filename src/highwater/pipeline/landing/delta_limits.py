"""What a Delta table asks of its writers, and which of it is kept here: a table that asks for more is refused.

Files are described to the log by ourselves, so nothing checks the rows in them unless it is done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.pipeline.landing.partitioning import PartitionField, Partitioning, check, is_partition_type, spoken
from highwater.pipeline.landing.rule import LandingError

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable as OpenTable
    from deltalake import Schema

_CONSTRAINT = "delta.constraints."
_RETENTION = "delta.setTransactionRetentionDuration"
_COMPUTED = {
    "delta.invariants": "a condition on its values",
    "delta.generationExpression": "values that are computed",
    "delta.identity.start": "values that are counted up",
}
"""What the metadata of a column names."""


def check_writable(table: OpenTable) -> None:
    """Raises LandingError, with what would have to change."""
    import pyarrow as pa

    metadata = table.metadata()
    where = table.table_uri
    kinds = pa.schema(table.schema())
    for name in metadata.partition_columns:
        if not is_partition_type(kinds.field(name).type):
            raise LandingError(
                f"{where} is partitioned by {name}, which is {kinds.field(name).type}: only numbers without fractions, "
                "texts, dates and booleans are supported"
            )
    settings = metadata.configuration
    if constraints := sorted(name for name in settings if name.startswith(_CONSTRAINT)):
        name, condition = constraints[0].removeprefix(_CONSTRAINT), settings[constraints[0]]
        raise LandingError(
            f"{where} has the CHECK constraint {name} ({condition}), which is not checked here: drop it (ALTER TABLE … "
            f"DROP CONSTRAINT {name}) and keep such rows out by a transform, or land in a table of its own"
        )
    if _RETENTION in settings:
        raise LandingError(
            f"{where} has {_RETENTION}={settings[_RETENTION]}: it would forget what has landed. Unset it"
        )
    for field in table.schema().fields:
        for mark, what in _COMPUTED.items():
            if mark in field.metadata:
                raise LandingError(f"column {field.name} of {where} has {what} ({mark}), which is not kept here")


def check_plain(table: OpenTable) -> None:
    """Raises LandingError where files have rows that the table has not, or columns under other names."""
    protocol = table.protocol()
    features = sorted({"deletionVectors", "columnMapping"} & set(protocol.reader_features or ()))
    if protocol.min_reader_version == 2:
        features = ["columnMapping"]
    if features:
        raise LandingError(
            f"{table.table_uri} has {', '.join(features)}, so its files cannot be read as they are: rewrite the table "
            f"without (in Spark: REORG TABLE … APPLY (PURGE))"
        )


def required(schema: Schema) -> tuple[str, ...]:
    """Columns that may not be null."""
    return tuple(field.name for field in schema.fields if not field.nullable)


def with_units(schema: pa.Schema, fields: tuple[PartitionField, ...]) -> pa.Schema:
    """And the columns that partitions by time need: Delta partitions by columns alone."""
    import pyarrow as pa

    kinds = {"days": pa.date32()}
    new = [pa.field(field.name, kinds.get(field.unit, pa.string())) for field in fields if field.unit]
    return pa.schema([*schema, *new])


def partitioning_of(table: OpenTable, asked: tuple[PartitionField, ...], rows: pa.Schema) -> Partitioning:
    """How the table is partitioned. Raises LandingError where the rows cannot be shared out so, or where something else
    is asked for."""
    present = table.metadata().partition_columns
    fields = asked or tuple(map(PartitionField, present))
    if [field.name for field in fields] != present:
        has = ", ".join(present) or "nothing"
        raise LandingError(
            f"{table.table_uri} is partitioned by {has}, and not by {spoken(asked)} as partitionBy says: a table keeps "
            f"its partitions, so land in a new one"
        )
    if missing := [field.column for field in fields if field.column not in rows.names]:
        raise LandingError(
            f"{table.table_uri} is partitioned by {', '.join(present)}, and the rows have no column {missing[0]}: say "
            f"with partitionBy of which column it is made, such as days(COLUMN)"
        )
    check(fields, rows)
    return Partitioning(fields, are_in_files=False)
