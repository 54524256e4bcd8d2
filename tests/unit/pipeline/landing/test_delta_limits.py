"""What a Delta table asks of its rows is kept, or the table is refused: no batch brings rows that break it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as Delta
from deltalake import Field, Schema, TableFeatures
from deltalake.schema import PrimitiveType

from highwater.pipeline.landing.columns import with_required
from highwater.pipeline.landing.compaction import FEWEST
from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.rule import LandingError
from tests.unit.pipeline.landing.tables import SCHEMA, ids, reaching, staged


def test_a_table_with_a_check_constraint_is_refused_by_its_name_and_gets_no_row_that_breaks_it(path: Path) -> None:
    table = DeltaTable(str(path))
    early = staged(table, [-1])
    Delta(path).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(LandingError, match=r"CHECK constraint positive \(id > 0\), which is not checked here"):
        table.commit(reaching(0, 1), early)
    with pytest.raises(LandingError, match="DROP CONSTRAINT positive"):
        table.prepare(SCHEMA)
    assert ids("delta", path) == Counter()
    Delta(path).alter.drop_constraint("positive")
    assert table.commit(reaching(0, 1), early)


@pytest.mark.parametrize("mark", ["delta.invariants", "delta.generationExpression", "delta.identity.start"])
def test_a_column_with_values_of_its_own_is_refused(path: Path, mark: str) -> None:
    fields = [Field("id", PrimitiveType("long"), metadata={mark: "1"}), Field("note", PrimitiveType("string"))]
    Delta.create(path, Schema(fields))
    with pytest.raises(LandingError, match=f"column id .*{mark}.*, which is not kept here"):
        DeltaTable(str(path)).prepare(SCHEMA)


def test_a_null_in_a_column_that_may_not_be_null_fails_the_task_that_brings_it(path: Path) -> None:
    Delta.create(path, Schema([Field("id", PrimitiveType("long"), False), Field("note", PrimitiveType("string"))]))
    table = DeltaTable(str(path))
    staging = table.prepare(SCHEMA)
    assert staging.required == ("id",)
    schema = with_required(SCHEMA, staging.required)

    def rows(*values: int | None) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"id": value} for value in values], schema=SCHEMA)

    with pytest.raises(ValueError, match="null"):
        stage([rows(1, None)], schema, FileShape(), staging, "bad")
    assert table.commit(reaching(0, 2), stage([rows(1, 2)], schema, FileShape(), staging, "good"))
    assert ids("delta", path) == Counter([1, 2])


def test_a_table_with_deletion_vectors_is_not_compacted(path: Path) -> None:
    """Its files still have the rows that are deleted: rewritten as they are, they would bring them back."""
    table = DeltaTable(str(path))
    for number in range(FEWEST):
        assert table.commit(reaching(number, number + 1, number + 1), staged(table, [number]))
    Delta(path).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    version = Delta(path).version()
    with pytest.raises(LandingError, match="has deletionVectors, so its files cannot be read as they are"):
        table.compact(1 << 20, lambda: False)
    assert Delta(path).version() == version
