"""The seeds are worth their time only if they find breakage: each promise is broken on purpose, and that is noticed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import PurePath
from typing import Any

import pytest

from highwater.active_controller import k67_allocate_producer_ids
from highwater.active_controller.active_controller import ActiveController
from highwater.controller.decision import Decision
from highwater.controller.producer_ids import allocate_producer_ids
from highwater.log import loader, names
from highwater.log.checkpoint import CheckpointFile
from highwater.log.log import Log
from highwater.log.scan import scan
from highwater.model import METADATA_TOPIC
from highwater.raft_node import raft_node, snapshots
from highwater.sim.disk import SimDisk
from highwater.world import Disk, Place, Step, World
from highwater.world.jobs import finished
from tests.sim.single_node import Broken, survive

SEEDS = range(100)


def first_finding(seeds: range = SEEDS) -> str:
    for seed in seeds:
        try:
            survive(seed)
        except Broken as found:
            return "\n".join(found.faults)
    raise AssertionError(f"{len(seeds)} seeds have found nothing")


def unsynced(disk: Disk, path: PurePath, data: bytes) -> Generator[Step, None, None]:
    """replace_file without the sync before the rename."""
    aside = path.with_name(path.name + ".tmp")
    file = disk.open(aside, create=True)
    file.truncate(0)
    file.append(data)
    yield Step()
    disk.rename(aside, path)
    yield Step()
    disk.sync_dir(path.parent)
    file.close()


async def replaced_unsynced(world: World, path: PurePath, data: bytes, where: Place) -> None:
    await finished(world, unsynced, path, data, where=where)


def test_an_acknowledgement_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "flush_each_append", property(lambda log: False))
    assert "'lost'" in first_finding()


def test_segments_whose_names_are_not_synced_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sync_dir = SimDisk.sync_dir

    def unless_of_a_partition(disk: SimDisk, path: PurePath) -> None:
        if names.partition_of(path.name) is None or path.name.startswith(METADATA_TOPIC):
            sync_dir(disk, path)

    monkeypatch.setattr(SimDisk, "sync_dir", unless_of_a_partition)
    finding = first_finding()
    # A log that begins anew without its synced head has lost it, or is refused: both are noticed.
    assert "'lost'" in finding or "could not be read to its end" in finding


def test_a_decision_answered_before_it_is_committed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(controller: ActiveController, answer: Callable[[Any], None], response: Any) -> None:
        answer(response)

    monkeypatch.setattr(ActiveController, "_answer_later", at_once)
    finding = first_finding()
    lost = ("was created, and is not there", "was deleted, and is there", "was set to one of")
    assert any(decision in finding for decision in lost)


def test_a_vote_that_is_not_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_node, "replaced", replaced_unsynced)
    assert "quorum-state" in first_finding()


def test_a_metadata_snapshot_that_is_not_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "replace_file", unsynced)
    assert "no whole snapshot reaches up to there" in first_finding()


def test_a_repeated_batch_that_is_written_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "_check_producer", lambda log, header: None)
    assert "'duplicated'" in first_finding()


def test_records_that_return_after_they_were_deleted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    write = CheckpointFile.write

    def at_once(file: CheckpointFile, done: Callable[[], None] | None = None, failed: object = None) -> None:
        write(file)
        if done is not None:
            done()

    monkeypatch.setattr(CheckpointFile, "write", at_once)
    assert "it starts at" in first_finding()


def test_a_torn_batch_that_recovery_takes_for_whole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(*args: Any, **options: Any) -> Any:
        return scan(*args, **{**options, "check": False})

    monkeypatch.setattr(loader, "scan", trusting)
    finding = first_finding(range(100, 600))  # one seed of a hundred tears a batch so that its lengths still fit
    # Readers meet the torn batch, or stop in front of it.
    assert "cached" in finding or "could not be read to its end" in finding


def test_producer_ids_that_are_given_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*asked: Any) -> Decision[Any]:
        return Decision(allocate_producer_ids(*asked).response)

    monkeypatch.setattr(k67_allocate_producer_ids, "allocate_producer_ids", forgetful)
    assert "producer id" in first_finding()
