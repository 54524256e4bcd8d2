"""What has landed is kept through a loss of power, and at no moment does one leave a table that cannot be read."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from highwater.pipeline.landing.delta import DeltaTable
from tests.unit.pipeline.landing.power import Disk, watched
from tests.unit.pipeline.landing.tables import FORMATS, SCHEMA, ids, reaching, staged, table_of

pytestmark = pytest.mark.slow


def rows_after(disk: Disk, path: Path, kind: str, *, with_all_names: bool) -> Counter[int]:
    """Of the table as the next driver finds it; then that one lands the batch, if the table does not have it."""
    lost = path.with_name("lost")
    path.rename(lost)
    disk.rebuilt(path, path, with_all_names=with_all_names)
    table = table_of(kind, path)
    table.prepare(SCHEMA)
    found = ids(kind, path)
    landed = table.commit(reaching(10, 20, number=2), staged(table, range(10, 20)))
    assert landed == (found == Counter(range(10)))
    assert ids(kind, path) == Counter(range(20))
    shutil.rmtree(path)
    lost.rename(path)
    return found


@pytest.mark.parametrize("with_all_names", [False, True], ids=["only what was synced", "names without contents"])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_loss_of_power_leaves_the_batch_or_nothing_of_it(path: Path, kind: str, with_all_names: bool) -> None:
    table = table_of(kind, path)
    with watched(path) as power:
        assert table.commit(reaching(0, 10), staged(table, range(10)))
        before = len(power.moments)
        assert table.commit(reaching(10, 20, number=2), staged(table, range(10, 20)))
        kept = power.moment()
    found = [rows_after(disk, path, kind, with_all_names=with_all_names) for disk in power.moments[before:]]
    assert len(found) >= 4
    assert found[0] == Counter(range(10)), "the first batch is kept since it had landed"
    assert all(rows in (Counter(range(10)), Counter(range(20))) for rows in found)
    assert rows_after(kept, path, kind, with_all_names=with_all_names) == Counter(range(20)), "it had landed"


@pytest.mark.parametrize("kind", FORMATS)
def test_a_loss_of_power_while_the_table_is_made_leaves_one_that_can_be_made(path: Path, kind: str) -> None:
    table = table_of(kind, path)
    with watched(path) as power:
        table.prepare(SCHEMA)
        moments = [*power.moments, power.moment()]
    for disk in moments:
        for with_all_names in (False, True):
            shutil.rmtree(path, ignore_errors=True)
            disk.rebuilt(path, path, with_all_names=with_all_names)
            assert table.commit(reaching(0, 10), staged(table, range(10)))
            assert ids(kind, path) == Counter(range(10))


@pytest.mark.parametrize("torn", ["", "{", "\0" * 100])
def test_an_entry_of_a_delta_log_that_power_left_half_written_is_put_aside(path: Path, torn: str) -> None:
    table = DeltaTable(str(path))
    table.commit(reaching(0, 10), staged(table, range(10)))
    log = path / "_delta_log"
    entry = log / f"{len(list(log.glob('*.json'))):020}.json"
    entry.write_text(torn)
    assert table.commit(reaching(10, 20), staged(table, range(10, 20)))
    assert ids("delta", path) == Counter(range(20))
    assert (log / f"{entry.name}.torn").read_text() == torn


def test_a_checkpoint_of_a_delta_log_that_power_left_half_written_is_put_aside(path: Path) -> None:
    from deltalake import DeltaTable as Delta

    table = DeltaTable(str(path))
    table.commit(reaching(0, 10), staged(table, range(10)))
    Delta(path).create_checkpoint()
    [checkpoint] = path.glob("_delta_log/*.checkpoint.parquet")
    checkpoint.write_bytes(b"")
    assert table.commit(reaching(10, 20), staged(table, range(10, 20)))
    assert ids("delta", path) == Counter(range(20))
