"""Group C, controller quorum: snapshots, what may be deleted behind them, and what becomes of broken ones (C8, C9)."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from highwater.metadata.cluster import MetadataImage
from highwater.quorum import LogPosition
from highwater.raft_node import installing
from highwater.raft_node.raft_node import RaftNode
from highwater.raft_node.snapshots import image_of, read_snapshot, snapshot_name
from highwater.sim.cluster import CLUSTER_ID
from highwater.sim.disk import SimDisk
from highwater.sim.trace import Event, matching
from tests.scenarios.metadata import (
    METADATA,
    agree,
    controller,
    create,
    create_topic,
    failures,
    has_quorum,
    leaders,
    others,
    raft,
    snapshots,
    state,
    topics,
)
from tests.scenarios.stage import Stage

SMALL: dict[str, Any] = {
    "metadata_log_max_record_bytes_between_snapshots": 1500,
    "internal_metadata_log_segment_bytes": 2000,
    "metadata_max_retention_bytes": 5000,
}
"""A few topics make a snapshot, and a few more let the oldest one go, with the log below the next."""


def read(stage: Stage, name: str, offset: int) -> MetadataImage | None:
    """The snapshot that ends there, as a node that starts would read it."""
    (position,) = [each for each in snapshots(stage, name) if each.offset == offset]
    disk = raft(stage, name).world.disk
    assert isinstance(disk, SimDisk)
    snapshot = read_snapshot(disk, METADATA, position)
    return None if snapshot is None else image_of(snapshot, CLUSTER_ID)


class Chronicle:
    """Every committed image that any node has had, by the offset of its last record."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.images: dict[int, bytes] = {}
        stage.sim.on_event(self._look)

    def _look(self, event: Event) -> None:
        for member in self._stage.cluster.live():
            node = member.node
            if node is not None and hasattr(node, "raft"):
                image = node.raft.committed
                if image.offset not in self.images:
                    self.images[image.offset] = state(image)


def test_c8_the_log_goes_only_below_a_whole_snapshot_and_a_snapshots_id_is_the_offset_behind_it() -> None:
    """Snapshots are taken and the log's prefix is deleted under them. Whenever a segment goes, a snapshot that a power
    cut would leave covers it; each holds the state of exactly the records below its id; and after a power cut right
    at a deletion nothing is missing."""
    with Stage(3, voters=3, **SMALL) as stage:
        chronicle, covered = Chronicle(stage), []

        def look(event: Event) -> None:
            """A segment of the metadata log is about to be set aside: it ends where the next one begins."""
            if matching("rename", "/data/__cluster_metadata-0/*.log -> *.deleted")(event) and event.phase == "before":
                log, storage = raft(stage, event.node).files, stage.storage(event.node)
                whole = [
                    each.offset
                    for each in snapshots(stage, event.node)
                    if each.offset and storage.durable_bytes(METADATA / snapshot_name(each)) is not None
                ]
                covered.append(bool(whole) and min(whole) >= log.log_start)

        stage.sim.on_event(look)
        active = controller(stage)
        for number in range(40):
            create(stage, active, f"t{number}")
            if len(covered) >= 3:
                break
        assert len(covered) >= 3 and all(covered), "a segment went without a snapshot that covers it"
        stage.until(lambda: agree(stage, *stage.cluster.names))
        for name in stage.cluster.names:
            for position in snapshots(stage, name):
                image = read(stage, name, position.offset)
                assert image is not None and image.offset == position.offset - 1
                known = chronicle.images.get(image.offset)
                assert state(image) == known, f"{name}: {position} is not the state of what lies below it"
        before = state(raft(stage, active).committed)
        (victim, _) = others(stage, active)
        stage.sim.crash_at(victim, matching("rename", "/data/__cluster_metadata-0/*.log -> *.deleted"), phase="after")
        extra = 0
        while stage.sim.is_alive(victim):
            create(stage, active, f"more{extra}")
            extra += 1
        stage.cut_power(victim)
        stage.start(victim)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        assert before != state(raft(stage, victim).committed), "it has gone on"


def test_c9_a_broken_snapshot_is_never_used_and_all_states_at_one_offset_are_equal() -> None:
    """A node loses its power in the midst of writing a snapshot; another in the midst of fetching one; and then a bit
    of a snapshot rots. Each comes back without it, and knows byte by byte what the others know."""
    with Stage(3, voters=3, seed=2, **SMALL) as stage:
        names = stage.cluster.names
        active = controller(stage)
        writer, fetcher = others(stage, active)

        stage.sim.crash_at(writer, matching("append", "*.checkpoint.tmp"), phase="during")
        made = 0
        while stage.sim.is_alive(writer):
            create(stage, active, f"a{made}")
            made += 1
        stage.cut_power(writer)
        stage.start(writer)
        stage.until(lambda: agree(stage, *names))

        stage.kill(fetcher)
        end = raft(stage, active).log.durable_end
        made = 0
        while raft(stage, active).log.start_offset <= end:
            create(stage, active, f"b{made}")
            made += 1
        point = stage.sim.crash_at(fetcher, matching("append", "*.checkpoint.part"), phase="during")
        stage.start(fetcher, waits=False)
        stage.until(lambda: point.hit)
        stage.cut_power(fetcher)
        stage.start(fetcher)
        stage.until(lambda: agree(stage, *names))
        assert raft(stage, fetcher).log.start_offset > end, "it has fetched the snapshot after all"

        made = 0
        while len(snapshots(stage, writer)) < 2:
            asked = stage.begin(create_topic(stage, active, f"c{made}"))
            made += 1
            stage.until(lambda asked=asked: asked.done or len(snapshots(stage, writer)) == 2)  # type: ignore[misc]
        stage.kill(writer)
        rotten = METADATA / snapshot_name(snapshots(stage, writer)[-1])
        data = bytes(stage.storage(writer).file(rotten).data)
        at = data.index(b"c0") if b"c0" in data else data.index(b"b0")
        stage.storage(writer).damage(rotten, at, b"zz")
        stage.start(writer)
        stage.until(lambda: agree(stage, *names))
        assert stage.said(writer, "is damaged and not used")
        assert not any("zz" in name for name in raft(stage, writer).committed.topics.by_name)


def take_no_snapshots(stage: Stage, name: str) -> None:
    """As by the defaults, which let 20 MB of records or an hour pass."""
    raft(stage, name).snapshotter._due = lambda: False  # type: ignore[method-assign]


def start_without_snapshots(stage: Stage, name: str) -> None:
    stage.start(name, waits=False)
    stage.until(lambda: has_quorum(stage, name))
    take_no_snapshots(stage, name)


def test_a_voter_that_is_killed_between_a_fetched_snapshot_and_the_cut_of_its_log_starts_again() -> None:
    """It led once and has a tail that nobody else has: longer than the snapshot, and of an older epoch."""
    with Stage(3, voters=3, log_flush_offset_checkpoint_interval_ms=1000, **SMALL) as stage:
        deposed = controller(stage)
        stage.isolate(deposed)
        stage.begin(create_topic(stage, deposed, "never", partitions=300))
        stage.until(lambda: any(name in leaders(stage) for name in others(stage, deposed)))
        leading = next(name for name in leaders(stage) if name != deposed)
        (whole,) = others(stage, deposed, leading)
        take_no_snapshots(stage, whole)
        stage.until(lambda: stage.cluster.active_controller() == leading)
        made = 0
        while snapshots(stage, leading)[0].epoch < raft(stage, leading).epoch:
            create(stage, leading, f"t{made}")
            made += 1
        assert raft(stage, deposed).log.durable_end > raft(stage, leading).log.durable_end
        stage.pass_time(1.0)  # the recovery point of the deposed leader is beyond the others' logs

        point = stage.sim.crash_at(deposed, matching("rename", "*.checkpoint.part -> *.checkpoint"), phase="after")
        stage.heal()
        stage.until(lambda: point.hit)
        stage.kill(deposed)
        stage.kill(leading)  # now the one that has the whole log leads, and says how far back they differ
        point = stage.sim.crash_at(deposed, matching("append", "*__cluster_metadata-0/*.log"), phase="after")
        stage.start(deposed, waits=False)
        stage.until(lambda: point.hit)
        stage.kill(deposed)  # before another recovery point was written
        stage.start(deposed, waits=False)
        stage.until(lambda: has_quorum(stage, deposed) and agree(stage, deposed, whole))
        stage.start(leading)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        assert "never" not in topics(stage, deposed)
        assert not failures(stage)


@pytest.mark.parametrize("older", ["removed", "left behind"])
def test_a_leader_that_took_a_snapshot_once_and_started_again_lets_new_nodes_in(older: str) -> None:
    """The snapshots before the one that it took are out of its log's reach. One of them would have the leader send each
    new node for the same snapshot again and again."""
    with Stage(4, voters=3, starts=False, **SMALL) as stage:
        stage.start("n1", "n2", "n3")
        active = controller(stage)
        late = others(stage, active, "n4")[0]
        stage.kill(late)
        end = raft(stage, active).log.durable_end
        made = 0
        while raft(stage, active).log.start_offset <= end:
            create(stage, active, f"t{made}")
            made += 1
        storage = stage.storage(late)
        removals = storage.fail("unlink", "*.checkpoint", errno.EIO, times=1) if older == "left behind" else None
        start_without_snapshots(stage, late)
        stage.until(lambda: agree(stage, "n1", "n2", "n3"))
        stage.until(lambda: snapshots(stage, late)[0].offset > end if removals is None else removals.struck)
        assert snapshots(stage, late)[0].offset == (raft(stage, late).log.start_offset if removals is None else 0)
        stage.kill(late)
        start_without_snapshots(stage, late)
        assert snapshots(stage, late)[0].offset > end
        stage.until(lambda: agree(stage, "n1", "n2", "n3"))
        while late not in leaders(stage):
            for name in leaders(stage):
                raft(stage, name).resign(raft(stage, name).epoch)
            stage.pass_time(3)
        stage.start("n4")
        stage.until(lambda: agree(stage, *stage.cluster.names))


def test_a_voter_that_fetches_a_snapshot_while_the_leader_changes_fetches_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The request to the old leader ends while the snapshot of the new one is fetched, and must not end that, too."""
    monkeypatch.setattr(installing, "PIECE_BYTES", 2)
    begun: list[LogPosition] = []
    fetch_snapshot = RaftNode._fetch_snapshot

    def counted(node: RaftNode, position: LogPosition) -> None:
        begun.append(position)
        fetch_snapshot(node, position)

    monkeypatch.setattr(RaftNode, "_fetch_snapshot", counted)
    small = SMALL | {"metadata_log_max_record_bytes_between_snapshots": 4000, "metadata_max_retention_bytes": 6000}
    with Stage(3, voters=3, controller_quorum_request_timeout_ms=4000, **small) as stage:
        old = controller(stage)
        new, late = others(stage, old)
        stage.kill(late)
        end = raft(stage, old).log.durable_end
        made = 0
        while min(raft(stage, name).log.start_offset for name in (old, new)) <= end:
            create(stage, old, f"t{made}")
            made += 1
        for name in (old, new):
            take_no_snapshots(stage, name)
        stage.start(late, waits=False)
        stage.until(lambda: pieces(stage, late))
        stage.isolate(old)
        stage.until(lambda: new in leaders(stage))
        stage.until(lambda: len(begun) == 2)
        stage.until(lambda: agree(stage, new, late))
        assert len(begun) == 2
        assert not stage.said(late, "is damaged")
        assert not pieces(stage, late)


def pieces(stage: Stage, name: str) -> list[str]:
    """Snapshots that are being fetched."""
    return [each for each in stage.storage(name).directory(METADATA).entries if each.endswith(".part")]
