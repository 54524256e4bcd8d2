"""What a Delta table asks of its writers, and which of it is kept here: a table that asks for more is refused.

Files are described to the log by ourselves, so nothing checks the rows in them unless it is done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.pipeline.landing.rule import LandingError

if TYPE_CHECKING:
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
    metadata = table.metadata()
    where = table.table_uri
    if metadata.partition_columns:
        raise LandingError(
            f"{where} is partitioned by {', '.join(metadata.partition_columns)}: only tables without partitions are "
            "supported"
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
