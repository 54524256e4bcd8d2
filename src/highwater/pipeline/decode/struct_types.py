"""Schemas that are given as Spark's own objects, in the words of a pipeline's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def schema_text(schema: str | StructType) -> str:
    """A StructType as a schema string; a string as it is. No JVM is asked."""
    return schema if isinstance(schema, str) else _fields(schema, " ")


def _fields(struct: StructType, between: str) -> str:
    return ", ".join(
        f"`{field.name.replace('`', '``')}`{between}{_type(field.dataType)}{'' if field.nullable else ' NOT NULL'}"
        for field in struct.fields
    )


def _type(kind: DataType) -> str:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"STRUCT<{_fields(kind, ': ')}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString().upper()
