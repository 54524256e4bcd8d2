"""Waits for nodes that were started, and describes those that take too long."""

from __future__ import annotations

import time
from collections.abc import Sequence

from highwater.cluster.failed import ClusterFailed
from highwater.cluster.host import Host
from highwater.cluster.waiting import waits_for


def wait_ready(hosts: Sequence[Host], seconds: float) -> None:
    """Waits until each node serves. ClusterFailed names the nodes that do not, and what they wait for."""
    deadline = time.monotonic() + seconds
    for host in hosts:
        if not host.wait_ready(max(deadline - time.monotonic(), 0)):
            if host.failure is not None:
                raise ClusterFailed(f"node {host.member.id}: {host.failure}")
            late = [host, *(other for other in hosts if other is not host and not other.wait_ready(0))]
            raise ClusterFailed(
                f"not ready after {seconds:g} s: {words_on(late)}. Cluster(ready_seconds=…) waits longer"
            )


def words_on(late: Sequence[Host]) -> str:
    ids = ", ".join(str(host.member.id) for host in late)
    # A node that opens its logs has the metadata, and only a quorum can give it.
    opening = [f"node {host.member.id} opens its logs" for host in late if host.opens_logs]
    waits = opening or waits_for([host.member for host in late])
    return ": ".join(filter(None, (f"node {ids}", "; ".join(waits))))
