"""Group C, controller quorum: what is committed is on a majority's disks, and nobody cuts it off (C3, C4)."""

from __future__ import annotations

import pytest

from highwater.quorum import Role
from tests.scenarios.metadata import (
    agree,
    batches,
    controller,
    create,
    create_topic,
    failures,
    has_quorum,
    others,
    quorum,
    raft,
    topics,
)
from tests.scenarios.stage import Stage


@pytest.mark.parametrize("seed", range(4))
def test_c3_offsets_count_once_they_are_synced_so_the_power_cut_of_all_voters_takes_nothing_back(seed: int) -> None:
    """A topic is being created; the moment the first node knows it as committed, all three lose their power. What any
    of them had called committed is there after the restart, and the high watermark is not lower."""
    with Stage(3, voters=3, seed=seed, watched=True) as stage:
        names = stage.cluster.names
        for topic in ("t1", "t2", "t3"):
            by = f"client of {topic}"
            stage.begin(create_topic(stage, controller(stage), topic, by=by), by)
            stage.until(lambda topic=topic: any(topic in topics(stage, name) for name in names))  # type: ignore[misc]
            known = max(quorum(stage, name).high_watermark or 0 for name in names)
            stage.cut_power(*names)
            stage.start(*names)
            stage.until(lambda: agree(stage, *names))
            assert all(topic in topics(stage, name) for name in names), f"{topic} was committed, and is gone"
            assert all((quorum(stage, name).high_watermark or 0) >= known for name in names)


def test_c4_a_node_whose_leader_asks_for_a_cut_below_its_high_watermark_stops_and_keeps_records() -> None:
    """Two of three disks lie: what they synced is gone after a power cut, and with a majority of the voters a history
    without the topic goes on. The third knows the topic as committed: it must stop, not forget it as well."""
    with Stage(3, voters=3, seed=3, expects_failures=True) as stage:
        honest = controller(stage)
        liars = others(stage, honest)
        create(stage, honest, "t1")
        stage.until(lambda: agree(stage, *stage.cluster.names))
        for name in liars:
            stage.storage(name).lie("/data/__cluster_metadata-0/*", times=None)
        create(stage, honest, "t2")
        stage.until(lambda: all("t2" in topics(stage, name) for name in liars))
        committed = quorum(stage, honest).high_watermark
        stage.isolate(honest)
        stage.cut_power(*liars)
        for name in liars:
            stage.storage(name).mend()
        stage.start(*liars, waits=False)
        stage.until(lambda: any(topics(stage, name) == ["t1"] for name in liars if has_quorum(stage, name)))
        assert not any("t2" in topics(stage, name) for name in liars), "their disks have kept it after all"
        stage.until(lambda: quorum(stage, honest).role is not Role.LEADER)
        kept = batches(stage, honest, below=committed)
        stage.heal()
        stage.until(lambda: failures(stage))
        (failure,) = stage.cluster.failures
        assert failure.startswith(f"{honest} gave up: QuorumViolation") and "below the high watermark" in failure
        assert batches(stage, honest, below=committed) == kept, "it has cut committed records off"
        assert "t2" in raft(stage, honest).committed.topics.by_name
