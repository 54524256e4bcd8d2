"""The upkeep of a table: when it works, what it waits for, and that nothing waits for it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from highwater.pipeline.definition import define
from highwater.pipeline.landing.table import Table
from highwater.pipeline.maintenance import Maintenance, Upkeep
from highwater.pipeline.sections import Mistake
from tests.unit.pipeline.landing.tables import ids, reaching, staged, table_of

WAIT_SECONDS = 60.0
SAID = {
    "name": "orders",
    "source": {"bootstrap_servers": "127.0.0.1:9092", "topic": "orders"},
    "sink": {"table": "delta", "path": "t"},
}


@dataclass
class Worked:
    """A table whose work begins and ends when the test says so."""

    may_end: threading.Event = field(default_factory=threading.Event)
    began: list[int] = field(default_factory=list)
    cleaned: list[timedelta] = field(default_factory=list)
    trouble: Exception | None = None

    def compact(self, target: int, is_stopped: Callable[[], bool]) -> int:
        self.began.append(target)
        if self.trouble is not None:
            raise self.trouble
        assert self.may_end.wait(WAIT_SECONDS)
        return 0

    def clean_up(self, older_than: timedelta) -> list[str]:
        self.cleaned.append(older_than)
        return []


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_works_when_it_is_time_and_no_batch_waits_for_it() -> None:
    table, clock = Worked(), Clock()
    upkeep = Maintenance(cast("Table", table), Upkeep(60.0, 1 << 20, 3600.0), clock)
    upkeep.after_batch()
    assert table.began == []
    clock.now = 61.0
    upkeep.after_batch()  # returns though the table is still at work
    clock.now = 200.0
    upkeep.after_batch()
    table.may_end.set()
    upkeep.close()
    assert table.began == [1 << 20], "one piece of work at a time"


def test_the_next_one_comes_after_as_long_again() -> None:
    table, clock = Worked(), Clock()
    table.may_end.set()
    upkeep = Maintenance(cast("Table", table), Upkeep(60.0, 1 << 20, 3600.0), clock)
    for now in (61.0, 100.0, 122.0):
        clock.now = now
        upkeep.after_batch()
        if upkeep._thread is not None:
            upkeep._thread.join(WAIT_SECONDS)
    assert len(table.began) == 2
    assert table.cleaned == [timedelta(hours=1)] * 2


def test_what_fails_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    table, clock = Worked(trouble=OSError("no space left")), Clock()
    upkeep = Maintenance(cast("Table", table), Upkeep(60.0, 1 << 20, 3600.0), clock)
    clock.now = 61.0
    upkeep.after_batch()
    upkeep.close()
    assert "maintenance failed, and is tried again in 60 s: no space left" in caplog.text


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_batches_land_while_a_table_is_maintained(tmp_path: Path, kind: str) -> None:
    table, clock = table_of(kind, tmp_path / "table"), Clock()
    upkeep = Maintenance(table, Upkeep(1.0, 1 << 20, 3600.0), clock)
    for number in range(12):
        assert table.commit(reaching(number, number + 1, number + 1), staged(table, [number]))
        clock.now += 2.0
        upkeep.after_batch()
    upkeep.close()
    assert ids(kind, tmp_path / "table") == Counter(range(12))
    assert len(table.contents().files) < 12


def test_a_file_says_how_a_table_is_maintained() -> None:
    assert define(SAID).upkeep is None
    assert define(SAID | {"maintenance": {}}).upkeep == Upkeep()
    said = {"every": "10m", "file_bytes": 1 << 26, "orphans_after": "48h"}
    assert define(SAID | {"maintenance": said}).upkeep == Upkeep(600.0, 1 << 26, 172_800.0)


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ({"maintenance": {"file_bytes": 1}}, "maintenance.file_bytes: is 1: it must be 1048576 to"),
        ({"maintenance": {"ever": "1h"}}, "maintenance.ever: is not a key here; did you mean every?"),
        ({"maintenance": {}, "sink": {"topic": "clean"}}, "maintenance: is given, but only a table needs it"),
    ],
)
def test_what_cannot_be_maintained_is_named(said: dict[str, object], trouble: str) -> None:
    with pytest.raises(Mistake, match=trouble):
        define(SAID | said)
