"""A node that starts in a cluster in which no metadata is written."""

from __future__ import annotations

from tests.scenarios.metadata import has_quorum, raft
from tests.scenarios.stage import Stage


def test_a_broker_whose_snapshot_holds_all_metadata_starts_though_nothing_more_is_written() -> None:
    """`metadata.max.idle.interval.ms=0`: an idle cluster writes no metadata. A new broker was killed when it had just
    installed the snapshot of the controller, behind which there is nothing."""
    with Stage(2, metadata_max_idle_interval_ms=0, metadata_log_max_record_bytes_between_snapshots=1) as stage:
        stage.kill("n2")
        stage.pass_time(5)
        stage.cluster.replace_disk("n2")
        end = raft(stage, "n1").log_end
        stage.start("n2", waits=False)
        stage.until(lambda: has_quorum(stage, "n2") and raft(stage, "n2").log.start_offset == end)
        stage.kill("n2")
        stage.start("n2", waits=False)
        stage.until(lambda: has_quorum(stage, "n2") and raft(stage, "n2").high_watermark == end)
        assert raft(stage, "n1").log_end == end, "nothing more was written"
        stage.until(lambda: stage.serves("n2"))
