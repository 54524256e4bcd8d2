"""The metadata log keeps what was synced once, or the node does not start."""

from __future__ import annotations

import asyncio
import errno
from itertools import count, pairwise
from pathlib import PurePath
from typing import Any

import pytest

from highwater.log.checkpoint import decode_offsets
from highwater.log.loaded import CorruptLog
from highwater.model import Endpoint, TopicPartition
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.quorum import LogPosition, Role
from highwater.raft_node.metadata_loader import load_metadata
from highwater.raft_node.snapshots import position_of
from highwater.sim.storage import Operation
from highwater.sim.trace import Event
from highwater.wire import records
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.records.header import LEADER_EPOCH_AT
from highwater.world.jobs import finished
from tests.scenarios.metadata import agree, controller, create_topic, quorum, raft
from tests.scenarios.stage import Stage
from tests.unit.broker.living import METADATA, NODE, Living

LOG = METADATA / f"{0:020d}.log"
FILE = METADATA / "recovery-point-offset-checkpoint"
PARTITION = TopicPartition("__cluster_metadata", 0)


def written(living: Living) -> int:
    return decode_offsets(living.sim.storage(NODE).durable_bytes(FILE) or b"0\n0\n").get(PARTITION, 0)


def places(living: Living, file: PurePath = LOG) -> list[int]:
    """Where each batch of the metadata log begins."""
    data = memoryview(bytes(living.sim.storage(NODE).file(file).data))
    return [at for at, _, _ in records.walk(data)]


def flip(living: Living, position: int, file: PurePath = LOG) -> bytes:
    storage = living.sim.storage(NODE)
    node = storage.file(file)
    storage.damage(file, position, bytes([node.data[position] ^ 1]))
    return bytes(node.data)


def test_the_recovery_point_is_written_at_intervals_and_when_the_node_stops() -> None:
    with Living(log_flush_offset_checkpoint_interval_ms="5000").start() as living:
        assert written(living) == 0
        living.sim.advance(5.1)
        first = written(living)
        assert 0 < first <= living.node.raft.log.durable_end
        living.create_topic("a")
        living.stop()
        assert first < written(living) == living.node.raft.log.durable_end


@pytest.mark.parametrize("nth", [0, 3, -1])
def test_a_batch_that_is_damaged_below_it_ends_the_start_and_nothing_is_cut(nth: int) -> None:
    with Living().start() as living:
        living.create_topic("a")
        living.stop()
        damaged = flip(living, places(living)[nth] + 30)
        with pytest.raises(CorruptLog, match=r"below the recovery point"):
            living.reborn().start()
        assert bytes(living.sim.storage(NODE).file(LOG).data) == damaged


@pytest.mark.parametrize("nth", [1, -1])
def test_a_batch_of_an_epoch_that_the_quorum_never_had_ends_the_start(nth: int) -> None:
    with Living().start() as living:
        living.create_topic("a")
        living.stop()
        flip(living, places(living)[nth] + LEADER_EPOCH_AT)  # no checksum covers it
        with pytest.raises(CorruptLog, match=rf"{LOG.name} at \d+: leader epoch \d+ where the quorum is in epoch 1"):
            living.reborn().start()


def test_a_batch_of_an_earlier_epoch_than_the_batch_before_it_ends_the_start() -> None:
    with Living().start() as living:
        living.create_topic("a")
        living.stop()
        flip(living, places(living)[-1] + LEADER_EPOCH_AT + 3)
        with pytest.raises(CorruptLog, match=rf"{LOG.name} at \d+: leader epoch 0 behind epoch 1"):
            living.reborn().start()


def test_a_log_whose_last_epoch_has_rotted_is_not_taken_for_one_that_its_snapshot_is_ahead_of() -> None:
    with Living(metadata_log_max_record_bytes_between_snapshots="600").start() as living:
        storage, numbers = living.sim.storage(NODE), count()
        while not any((position_of(name) or LogPosition(0, 0)).offset for name in storage.directory(METADATA).entries):
            living.create_topic(f"t{next(numbers)}")
            living.sim.advance(0.1)
        living.create_topic("last")
        living.stop()
        damaged = flip(living, places(living)[-1] + LEADER_EPOCH_AT + 3)
        with pytest.raises(CorruptLog, match=r"leader epoch 0 behind epoch 1"):
            living.reborn().start()
        assert bytes(storage.file(LOG).data) == damaged


def test_closed_segments_below_it_are_read_with_the_same_care() -> None:
    with Living(internal_metadata_log_segment_bytes="1000").start() as living:
        for name in ("a", "b", "c", "d", "e", "f"):
            living.create_topic(name)
        assert len(living.node.raft.files.segments) > 1
        living.stop()
        flip(living, places(living)[1] + 70)
        with pytest.raises(CorruptLog, match=r"below (its|the) recovery point"):
            living.reborn().start()


def test_a_log_that_ends_before_it_is_refused_as_well() -> None:
    with Living().start() as living:
        living.create_topic("a")
        living.stop()
        node = living.sim.storage(NODE).file(LOG)
        node.truncate(places(living)[-1])
        with pytest.raises(CorruptLog, match=r"ends at \d+, but had been synced up to"):
            living.reborn().start()


def test_a_torn_tail_above_it_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    with Living().start() as living:
        living.create_topic("a")
        assert written(living) == 0
        last = places(living)[-1]
        living.sim.crash(NODE, power_loss=False)
        flip(living, last + 70)
        living.reborn().start()
        assert f"bytes off {LOG.name} at {last}: its checksum is wrong" in caplog.text


def test_a_log_whose_only_snapshot_rots_is_refused_since_nothing_else_says_how_it_began() -> None:
    small: dict[str, Any] = {
        "internal_metadata_log_segment_bytes": "1000",
        "metadata_log_max_record_bytes_between_snapshots": "600",
        "metadata_max_retention_bytes": "1500",
    }
    with Living(**small).start() as living:
        storage = living.sim.storage(NODE)
        number = 0
        while living.node.raft.files.segments[0].base_offset == 0:
            living.create_topic(f"t{number}")
            number += 1
        living.stop()
        for name in list(storage.directory(METADATA).entries):
            if position_of(name) is not None:
                flip(living, 100, METADATA / name)
        with pytest.raises(CorruptLog, match=r"begins at \d+, and no whole snapshot reaches up to there"):
            living.reborn().start()


def test_the_recovery_point_is_lowered_on_disk_before_a_follower_cuts_its_log() -> None:
    """A leader writes what it cannot commit, is deposed, and cuts it off: at no moment does its recovery point lie
    beyond what it is about to have, or a power cut would leave a log that is refused."""
    with Stage(3, voters=3, log_flush_offset_checkpoint_interval_ms=20) as stage:
        old = controller(stage)
        stage.until(lambda: agree(stage, *stage.cluster.names))

        def on_disk() -> int:
            return decode_offsets(stage.storage(old).durable_bytes(FILE) or b"0\n0\n").get(PARTITION, 0)

        common = raft(stage, old).log.durable_end
        stage.isolate(old)
        stage.begin(create_topic(stage, old, "never", ms=500))
        stage.until(lambda: on_disk() > common)
        at_the_cut: list[int] = []

        def look(event: Event) -> None:
            if (event.node, event.kind, event.phase) == (old, "truncate", "before") and event.subject == str(LOG):
                at_the_cut.append(on_disk())

        stage.sim.on_event(look)
        stage.until(lambda: quorum(stage, old).role is not Role.LEADER)
        stage.heal()
        stage.until(lambda: agree(stage, *stage.cluster.names))
        assert at_the_cut and max(at_the_cut) <= common
        stage.until(lambda: on_disk() > common)


@pytest.mark.parametrize(("operation", "code"), [("open", errno.EMFILE), ("append", errno.ENOSPC)])
def test_a_follower_cuts_its_log_once_there_is_room_to_lower_it(operation: Operation, code: int) -> None:
    with Stage(3, voters=3, log_flush_offset_checkpoint_interval_ms=20) as stage:
        old = controller(stage)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        common = raft(stage, old).log.durable_end
        stage.isolate(old)
        stage.begin(create_topic(stage, old, "never", ms=500))
        stage.until(lambda: raft(stage, old).log.durable_end > common and quorum(stage, old).role is not Role.LEADER)
        stage.pass_time(1)
        fault = stage.storage(old).fail(operation, f"{FILE}*", code, times=3)
        stage.heal()
        stage.until(lambda: fault.struck == 3 and agree(stage, *stage.cluster.names))
        assert stage.cluster.is_up(old)


@pytest.mark.parametrize("nth", [2, 5, 9])
@pytest.mark.parametrize("seed", [3, 17, 50, 68])
def test_a_power_cut_while_old_segments_go_loses_nothing_of_the_metadata(seed: int, nth: int) -> None:
    """Of several renames a disk may keep the later ones alone: what lies behind the hole would be cut off."""
    small: dict[str, Any] = {
        "internal_metadata_log_segment_bytes": "300",
        "metadata_log_max_record_bytes_between_snapshots": "3000",
        "metadata_max_retention_bytes": "100",
    }
    durable: list[int] = []
    steps: list[str] = []
    with Living(seed, **small).start() as living:

        def is_put_aside(event: Event) -> bool:
            durable.append(living.node.raft.log.durable_end)
            is_kept = event.kind == "sync_dir" and event.subject == str(METADATA)
            is_renamed = event.kind == "rename" and event.subject.endswith(".log.deleted")
            if event.phase == "after":
                steps.extend(["kept"] * is_kept + ["renamed"] * is_renamed)
            return is_renamed

        async def create_topics() -> None:
            """One after the other: records are written while a snapshot is."""
            ended: asyncio.Future[Gone] = asyncio.get_running_loop().create_future()
            deadlines = DeadlineQueue(living._client.clock)
            connection = ClientConnection(living._client, Endpoint(NODE, 9092), "test", deadlines, ended.set_result)

            def create(number: int) -> None:
                topic = CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1)
                request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
                connection.send(request, 7, CreateTopicsResponse, lambda answer: answered(number, answer), 60.0)

            def answered(number: int, answer: CreateTopicsResponse | CallFailed) -> None:
                if not isinstance(answer, CallFailed):
                    create(number + 1)

            connection.open(lambda: create(0), 60.0)
            await ended

        point = living.sim.crash_at(NODE, is_put_aside, nth, phase="after")
        living._client.spawn("topics", create_topics())
        living.sim.run(living.sim.until(lambda: point.hit is not None, limit=300))
        living.reborn()
        loaded = living.sim.run(living.world.perform(finished(living.world, load_metadata, METADATA)))
        assert loaded.log.log_end >= durable[-1]
        assert ("renamed", "renamed") not in pairwise(steps), "each is durable before the next one goes"
