"""How long an embedded cluster waits for its nodes, and what it says when that was too short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.cluster import Cluster
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.readiness import words_on
from highwater.model import NodeId

pytestmark = pytest.mark.slow

DEAF = {"max.connections.per.ip.overrides": "127.0.0.1:0"}
"""No voter lets another in: nobody is ever ready."""


def test_a_node_that_waits_for_voters_is_reported_with_their_addresses() -> None:
    with Cluster(brokers=3) as cluster:
        cluster.kill(1, 2, 3)
        with pytest.raises(ClusterFailed) as late:
            cluster.start(1, seconds=0.1)
    refused = r"cannot connect to 127.0.0.1:\d+: Connection refused"
    assert re.fullmatch(
        rf"not ready after 0.1 s: node 1: node 1 waits for voter 2: {refused}; voter 3: {refused}. "
        r"Cluster\(ready_seconds=…\) waits longer",
        str(late.value),
    )


def test_a_cluster_waits_as_long_as_it_was_asked_to_and_names_all_that_are_late() -> None:
    with pytest.raises(ClusterFailed, match=r"^not ready after 0.2 s: node 1, 2, 3: node 1 waits for voter 2: "):
        Cluster(brokers=3, config=DEAF, ready_seconds=0.2).open()


@pytest.mark.parametrize("processes", [False, True])
def test_a_node_that_opens_its_logs_says_so(processes: bool) -> None:
    """Nobody need look for a quorum then."""
    with Cluster(brokers=1, processes=processes) as cluster:
        cluster.create_topic("orders", partitions=3)
        host = cluster._hosts.of(NodeId(1))
        assert host is not None
        assert not host.opens_logs
        cluster.kill(1)
        cluster.start(1)
        host = cluster._hosts.of(NodeId(1))
        assert host is not None
        assert words_on([host]) == "node 1: node 1 opens its logs"


def test_a_cluster_that_is_closed_as_a_whole_warns_of_no_missing_leader(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a set-up of logging, Python writes warnings to the terminal of the cluster's owner."""
    caplog.set_level("INFO")
    Cluster(brokers=1, controllers=2, data_dir=tmp_path).open().close()
    logged = [record for record in caplog.records if "no other leader of the quorum" in record.message]
    assert {record.levelname for record in logged} <= {"INFO"}
