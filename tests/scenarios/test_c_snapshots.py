"""Group C, controller quorum: snapshots, what may be deleted behind them, and what becomes of broken ones (C8, C9)."""

from __future__ import annotations

from typing import Any

from highwater.metadata.cluster import MetadataImage
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
    others,
    raft,
    snapshots,
    state,
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
