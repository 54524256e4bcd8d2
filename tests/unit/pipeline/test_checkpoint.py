"""Spark's checkpoint in a folder: one driver at a time, and what a loss of power leaves of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.model import TopicPartition
from highwater.pipeline.checkpoint import NOTED_BATCHES, ROWS, Checkpoint, InUse, Landed
from highwater.pipeline.landing.spark_offsets import has_past, reaches_of
from highwater.pipeline.offsets import INITIAL, Position, Positions

HOLDER = """
import sys, time
from pathlib import Path
from highwater.pipeline.checkpoint import Checkpoint
with Checkpoint(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


def wrote(folder: Path, number: int, *sources: object, log: str = "offsets") -> Path:
    """As Spark writes an entry of its logs."""
    (folder / log).mkdir(parents=True, exist_ok=True)
    file = folder / log / str(number)
    file.write_text("\n".join(["v1", "{}", *(json.dumps(source) for source in sources)]))
    (folder / log / f".{number}.crc").write_bytes(b"crc")
    return file


def at(offset: int) -> dict[str, object]:
    return Positions({"orders": "an-id"}, {TopicPartition("orders", 0): Position(offset, 0)}).to_json()


def test_a_second_driver_learns_which_process_has_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoints/orders")
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(checkpoint.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"locked\n"
        with pytest.raises(InUse, match=rf"is in use by another driver \(process {first.pid}\): stop that one"):
            checkpoint.locked().__enter__()
    finally:
        first.kill()
        first.communicate()
    with checkpoint.locked():
        held = checkpoint.folder.with_name("orders.lock").read_text()
    assert held == f"{os.getpid()}\n", "a driver that was killed is in nobody's way"


@pytest.mark.parametrize("torn", ["", "v1\n{}\n{", "\0" * 50])
def test_half_written_ends_of_sparks_logs_are_removed_after_a_power_cut(tmp_path: Path, torn: str) -> None:
    checkpoint = Checkpoint(tmp_path)
    for number in (0, 1):
        wrote(tmp_path, number, at(number))
        wrote(tmp_path, number, {}, log="commits")
    for log in ("offsets", "commits"):
        wrote(tmp_path, 2, log=log).write_text(torn)
    removed = checkpoint.mend()
    assert sorted(removed) == [tmp_path / "commits/2", tmp_path / "offsets/2"]
    left = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.glob("*/*") if not file.name.startswith("."))
    assert left == ["commits/0", "commits/1", "offsets/0", "offsets/1"]
    assert not (tmp_path / "offsets/.2.crc").exists()
    assert checkpoint.mend() == []


def test_all_commits_that_the_system_had_not_written_when_the_power_went_go_at_once(tmp_path: Path) -> None:
    """Nobody syncs them. Each that stayed would fail the next start of Spark."""
    for number in range(6):
        wrote(tmp_path, number, at(number))
        wrote(tmp_path, number, {}, log="commits")
    for number in (1, 3, 4, 5):
        (tmp_path / f"commits/{number}").write_text("")
    assert sorted(Checkpoint(tmp_path).mend()) == [tmp_path / f"commits/{number}" for number in (3, 4, 5)]
    assert (tmp_path / "commits/2").exists(), "Spark reads the last one alone"
    assert len(list((tmp_path / "offsets").glob("[0-9]"))) == 6


def test_a_query_id_that_a_loss_of_power_left_half_written_goes_unless_batches_have_it(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    (tmp_path / "metadata").write_text("")
    wrote(tmp_path, 0, INITIAL)
    assert checkpoint.mend() == []
    (tmp_path / "offsets/0").write_text("")
    assert sorted(checkpoint.mend()) == [tmp_path / "metadata", tmp_path / "offsets/0"]


def test_a_location_elsewhere_is_not_looked_at() -> None:
    assert Checkpoint.at("hdfs://host/checkpoint") is None
    assert Checkpoint.at(None) is None
    found = Checkpoint.at("file:///checkpoints/orders")
    assert found is not None
    assert found.folder == Path("/checkpoints/orders")


def test_the_offsets_of_a_batch_are_read_where_they_are_those_of_topics(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    wrote(tmp_path, 0, at(5))
    wrote(tmp_path, 1, at(5))
    wrote(tmp_path, 2, at(9))
    assert [reaches_of(checkpoint, number) for number in (0, 1)] == [(), ()]
    [reach] = reaches_of(checkpoint, 2) or ()
    assert (str(reach.log), reach.start, reach.end) == ("orders-0", 5, 9)
    assert [has_past(checkpoint, number) for number in (0, 1, 2, 3)] == [False, False, False, True]
    (tmp_path / "offsets/0").unlink()
    assert has_past(checkpoint, 2), "what Spark has removed was long ago"


@pytest.mark.parametrize("source", [{"logOffset": 3}, 7, [1, 2]])
def test_a_source_without_offsets_of_topics_has_none_to_compare(tmp_path: Path, source: object) -> None:
    checkpoint = Checkpoint(tmp_path)
    wrote(tmp_path, 0, source)
    wrote(tmp_path, 1, source)
    assert reaches_of(checkpoint, 1) is None
    assert has_past(checkpoint, 1)
    wrote(tmp_path, 2, at(1), at(2))
    assert reaches_of(checkpoint, 2) is None, "the query had one source before"


def test_two_sources_that_read_one_topic_have_no_offsets_to_compare(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    wrote(tmp_path, 0, at(0), at(0))
    wrote(tmp_path, 1, at(4), at(6))
    assert reaches_of(checkpoint, 1) is None


def test_the_rows_of_the_last_batches_are_noted(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.note(0, Landed(1))
    assert checkpoint.landed(0) == Landed(0), "without a checkpoint there is nothing to note it in"
    checkpoint.folder.mkdir()
    for number in range(NOTED_BATCHES + 1):
        checkpoint.note(number, Landed(number * 10, 2, 300, 4))
    checkpoint.note(7, Landed(3))  # tried again, with other rows
    found = [checkpoint.landed(number) for number in (1, 7, NOTED_BATCHES)]
    assert found == [Landed(0), Landed(3), Landed(NOTED_BATCHES * 10, 2, 300, 4)]
    (checkpoint.folder / ROWS).write_text("5 70\n")
    assert checkpoint.landed(5) == Landed(70), "as an earlier version has noted it"
    checkpoint.note(6, Landed(1))
    for number in range(NOTED_BATCHES):
        checkpoint.note(number, Landed(number))
    assert len((checkpoint.folder / ROWS).read_text().splitlines()) == NOTED_BATCHES
