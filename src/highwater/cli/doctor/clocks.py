"""The clocks of a cluster's machines, beside the clock of this one.

A node of Highwater tells its time on its status page. Apache Kafka does not tell it, but for one: the leader of the
quorum dates its own progress with its present time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from highwater.cli.doctor.finding import CLOCKS, Finding, brokers_named, listed
from highwater.cli.doctor.status_pages import StatusPage
from highwater.model import NodeId
from highwater.wire.messages.describe_quorum_response import PartitionData

MOST_MS = 1000.0
"""Records are dated by their producers, and retention and look-ups by time go by these dates."""


class NodeClock(NamedTuple):
    """How far a node's clock is ahead of this machine's, give or take."""

    node: NodeId
    ahead_ms: float
    uncertain_ms: float
    version: str | None = None
    """Of the node's software, which the same page tells."""

    @property
    def is_off(self) -> bool:
        return abs(self.ahead_ms) - self.uncertain_ms > MOST_MS


def clock_of(page: StatusPage) -> NodeClock | None:
    """None if the page was not had, or an older release made it."""
    shown = None if page.status is None else page.status.get("time_ms")
    if page.status is None or not isinstance(shown, int):
        return None
    version = page.status.get("version")
    return _between(page.node, shown, page.asked_ms, page.answered_ms, version if isinstance(version, str) else None)


def clock_of_leader(quorum: PartitionData, asked_ms: float, answered_ms: float) -> NodeClock | None:
    """The clock of the quorum's leader, from its answer to DescribeQuorum."""
    for voter in quorum.current_voters:
        if voter.replica_id == quorum.leader_id and voter.last_fetch_timestamp > 0:
            return _between(NodeId(voter.replica_id), voter.last_fetch_timestamp, asked_ms, answered_ms)
    return None


def examine_clocks(
    clocks: Sequence[NodeClock], silent: Sequence[StatusPage], without: Sequence[NodeId]
) -> Iterator[Finding]:
    """`silent` pages were not had; `without` are brokers that serve none."""
    for each in clocks:
        how = f"{abs(each.ahead_ms):.0f} ms {'ahead of' if each.ahead_ms > 0 else 'behind'} this machine's"
        text = f"the clock of node {each.node} is {how}, give or take {each.uncertain_ms:.0f} ms"
        if each.is_off:
            yield CLOCKS.wrong(text, "Set the clocks of both machines by NTP (chrony, systemd-timesyncd).")
        else:
            yield CLOCKS.well(text)
    if silent:
        named = listed(f"{each.node} ({each.at})" for each in silent)
        yield CLOCKS.unknown(
            f"the clocks of nodes {named}: their status pages do not answer here",
            "Set highwater.http.listener to an address that this machine reaches, or run highwater doctor there.",
        )
    known = {each.node for each in clocks}
    unseen = [node for node in without if node not in known]
    if unseen:
        yield CLOCKS.unknown(
            f"the clocks of {brokers_named(unseen)}: they serve no status page (Apache Kafka tells its time to nobody)",
            "Compare them by hand: `date +%s.%N` on each machine.",
        )


def now_ms() -> float:
    return time.time() * 1000


def _between(node: NodeId, shown: int, asked_ms: float, answered_ms: float, version: str | None = None) -> NodeClock:
    return NodeClock(node, shown - (asked_ms + answered_ms) / 2, (answered_ms - asked_ms) / 2, version)
