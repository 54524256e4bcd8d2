"""Others compact, rewrite and clean a table while we land in it: nothing is lost, doubled or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.pipeline.landing import delta, iceberg
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.rule import Batch, Known, after
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import ids, reaching, staged


def compact(path: Path) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    table = DeltaTable(path)
    try:
        table.optimize.compact()
    except CommitFailedError:
        return  # its own trouble: a stranger may lose the race
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def rewrite(table: IcebergTable) -> None:
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    opened = table.open()
    try:
        opened.overwrite(opened.scan().to_arrow())
    except (CommitFailedException, ValidationException):
        return


def stranger(table: Table, path: Path) -> Callable[[], None]:
    return (lambda: rewrite(table)) if isinstance(table, IcebergTable) else (lambda: compact(path))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_that_others_rewrite_between_batches_knows_its_position(table: Table, kind: str, path: Path) -> None:
    work = stranger(table, path)
    for number in range(1, 5):
        assert table.commit(reaching(number - 1, number, number), staged(table, [number]))
        work()
        assert not table.commit(reaching(number - 1, number, number), staged(table, [number]))
    assert ids(kind, path) == Counter(range(1, 5))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_batch_lands_though_others_rewrite_the_table_in_the_midst_of_its_commit(
    table: Table, kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They commit after the batch was judged, and before it is committed."""
    for number in range(1, 4):
        table.commit(reaching(number - 1, number, number), staged(table, [number]))
    work = stranger(table, path)
    judgements: list[Known] = []

    def meddling(known: Known, batch: Batch) -> Known | None:
        judged = after(known, batch)
        judgements.append(known)
        if len(judgements) == 1:
            work()
        return judged

    monkeypatch.setattr(iceberg if kind == "iceberg" else delta, "after", meddling)
    assert table.commit(reaching(3, 4, 4), staged(table, [4]))
    assert judgements[0].position == judgements[-1].position
    assert ids(kind, path) == Counter(range(1, 5))
    assert not table.commit(reaching(3, 4, 4), staged(table, [4]))
