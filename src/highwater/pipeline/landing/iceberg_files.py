"""Data files as an Iceberg table's manifests describe them, and the partitions that they are in.

pyiceberg finds a file's partition by the bounds in its footer, which are not always there. The tasks know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from highwater.pipeline.landing.partitioning import PartitionField, Partitioning, Values, check, number_of, spoken
from highwater.pipeline.landing.rule import LandingError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as OpenTable
    from pyiceberg.table import Transaction


def append(change: Transaction, files: Iterable[DataFile], marks: dict[str, str]) -> None:
    """As pyiceberg adds files, with files that are described already."""
    from pyiceberg.table import TableProperties

    metadata = change.table_metadata
    if metadata.name_mapping() is None:
        mapping = metadata.schema().name_mapping.model_dump_json()
        change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    merges = str(metadata.properties.get(TableProperties.MANIFEST_MERGE_ENABLED, "")).lower() == "true"
    update = change.update_snapshot(marks)
    with update.merge_append() if merges else update.fast_append() as new:
        for file in files:
            new.append_data_file(file)


def described(table: OpenTable, files: Iterable[tuple[str, Values]]) -> Iterator[DataFile]:
    """By location and partition."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    schema = table.schema()
    for location, values in files:
        stored = table.io.new_input(location)
        with stored.open() as opened:
            footer = pq.read_metadata(opened)
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer,
            stats_columns=compute_statistics_plan(schema, table.metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        yield DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=location,
            file_format=FileFormat.PARQUET,
            partition=Record(*map(number_of, values)),
            file_size_in_bytes=len(stored),
            sort_order_id=None,
            spec_id=table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def partitioning_of(table: OpenTable, asked: tuple[PartitionField, ...], rows: pa.Schema) -> Partitioning:
    """How the table is partitioned. Raises LandingError where the rows cannot be shared out so, or where something else
    is asked for."""
    present = tuple(_field(table, field) for field in table.spec().fields)
    if asked and asked != present:
        raise LandingError(
            f"{'.'.join(table.name())} is partitioned by {spoken(present)}, and not by {spoken(asked)} as partitionBy "
            f"says: change it with an engine of Iceberg's, or land in a new table"
        )
    check(present, rows)
    return Partitioning(present)


def new_table(rows: pa.Schema, fields: tuple[PartitionField, ...]) -> tuple[Schema, PartitionSpec]:
    """The columns of a table that is to be created, and how it is partitioned."""
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
    from pyiceberg.partitioning import PartitionField as SpecField
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.transforms import parse_transform

    schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(rows))
    return schema, PartitionSpec(
        *[
            SpecField(
                source_id=schema.find_field(field.column).field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=parse_transform(field.unit.removesuffix("s") or "identity"),
                name=field.name,
            )
            for number, field in enumerate(fields)
        ]
    )


def _field(table: OpenTable, field: Any) -> PartitionField:
    name = table.schema().find_column_name(field.source_id) or ""
    transform = str(field.transform)
    if "." in name or transform not in ("identity", "year", "month", "day", "hour"):
        raise LandingError(
            f"{'.'.join(table.name())} is partitioned by {transform}({name}): only columns and their years, months, "
            f"days and hours are supported"
        )
    return PartitionField(name, "" if transform == "identity" else f"{transform}s")
