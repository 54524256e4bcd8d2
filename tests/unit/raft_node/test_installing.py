"""Snapshots of the leader that came whole and are not installed."""

from __future__ import annotations

from highwater.metadata.cluster import MetadataImage
from highwater.metadata.snapshot import snapshot_records
from highwater.model import TopicPartition
from highwater.quorum import LogPosition
from highwater.quorum.follower import Follower
from highwater.raft_node.snapshots import Snapshot
from tests.scenarios.stage import Stage

OTHER = TopicPartition("other", 0)


def brought(stage: Stage, name: str, position: LogPosition, wanted: LogPosition | None) -> None:
    """The node, which follows `wanted`, has fetched a whole snapshot of an empty cluster at `position`."""
    raft = stage.node(name).raft
    role = raft.quorum._core.role
    assert isinstance(role, Follower)
    role.fetching_snapshot = wanted
    image = MetadataImage(raft.identity.cluster_id)
    snapshot = Snapshot(position, batches=[list(batch) for batch in snapshot_records(image)], whole=True)
    done: list[bool] = []

    async def install() -> None:
        await raft._install(snapshot)
        done.append(True)

    stage.member(name).node.world.call(raft._inputs.block, install)
    stage.until(lambda: done)


def goes_on(stage: Stage, name: str) -> None:
    """It has all metadata that there was, and gets what comes."""
    stage.create(OTHER, (int(name[1]),))
    assert set(stage.node(name).raft.committed.topics.by_name) == {"orders", "other"}


def test_a_snapshot_that_is_no_longer_wanted_leaves_the_log_as_it_is() -> None:
    """The role or the leader has changed since it was asked for. The log has grown in between, or is about to."""
    with Stage(2) as stage:
        stage.create(replicas=(2,))
        log = stage.node("n2").raft.log
        brought(stage, "n2", LogPosition(log.last_epoch, log.durable_end + 100), wanted=None)
        goes_on(stage, "n2")


def test_a_snapshot_that_is_not_ahead_of_the_log_leaves_it_as_it_is() -> None:
    with Stage(2) as stage:
        stage.create(replicas=(2,))
        log = stage.node("n2").raft.log
        position = LogPosition(log.last_epoch, log.durable_end)
        brought(stage, "n2", position, wanted=position)
        goes_on(stage, "n2")
