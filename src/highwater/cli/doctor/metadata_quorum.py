"""The metadata quorum, as its leader describes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from highwater.cli.doctor.addresses import MOST_AT_ONCE, SeenBroker
from highwater.cli.doctor.clocks import now_ms
from highwater.cli.doctor.finding import QUORUM, Finding, State, brokers_named, listed
from highwater.client.admin import Admin
from highwater.client.client import Client
from highwater.client.failures import ClientFailure, UnsupportedApi
from highwater.errors import KafkaError
from highwater.model import NodeId
from highwater.wire.messages.describe_quorum_response import PartitionData, ReplicaState

SILENT_MS = 5000
"""A voter fetches at least every half second. Kafka's controller.quorum.fetch.timeout.ms is two seconds."""


class Answer(NamedTuple):
    """What one broker says of the quorum, and when it was asked and answered, in ms."""

    broker: SeenBroker
    quorum: PartitionData | Finding
    asked_ms: float
    answered_ms: float

    @property
    def is_cut_off(self) -> bool:
        """Whether the broker reaches no controller. What it says of topics and replicas may be old then."""
        return isinstance(self.quorum, Finding) and self.quorum.state is State.WRONG


def ask_each(client: Client, brokers: Sequence[SeenBroker], seconds: float) -> list[Answer]:
    """Each broker by itself, all at once: each asks the controller that it knows."""

    def ask(broker: SeenBroker) -> Answer:
        asked = now_ms()
        with Client(
            [str(broker.endpoint)],
            client_id=client.client_id,
            timeout=seconds,
            request_timeout=seconds,
            security=client.security,
        ) as own:
            return Answer(broker, ask_quorum(Admin(own)), asked, now_ms())

    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(brokers))) as pool:
        return list(pool.map(ask, brokers))


def examine_cut_off(cut_off: Sequence[NodeId], of: int) -> Iterator[Finding]:
    """If no broker at all reaches a controller, the quorum itself is what is wrong."""
    if 0 < len(cut_off) < of:
        one = len(cut_off) == 1
        yield QUORUM.wrong(
            f"{brokers_named(cut_off)} {'does' if one else 'do'} not reach the controller that leads: what "
            f"{'it says' if one else 'they say'} of topics and replicas may be old",
            "Look at the links from there to the controllers.",
        )


def ask_quorum(admin: Admin) -> PartitionData | Finding:
    """The answer of the leader, or what its absence means."""
    try:
        return admin.describe_quorum().topics[0].partitions[0]
    except UnsupportedApi:
        return QUORUM.unknown("the cluster does not describe its quorum: it is too old, or no cluster of KRaft")
    except (KafkaError, ClientFailure, IndexError) as failed:
        return QUORUM.wrong(
            f"no controller describes the quorum: {failed}",
            "More than half of the voters must run and reach each other: start them, and look at the links between "
            "them. Until then no topic is created, no leader elected and no ISR changed.",
        )


def examine_quorum(quorum: PartitionData) -> Iterator[Finding]:
    voters = quorum.current_voters
    leader = next((each for each in voters if each.replica_id == quorum.leader_id), None)
    if leader is None:
        yield QUORUM.wrong(f"the leader {quorum.leader_id} is none of the voters", "Ask again: an election may be on.")
        return
    yield QUORUM.well(
        f"node {leader.replica_id} leads in epoch {quorum.leader_epoch}; voters: "
        f"{listed(sorted(each.replica_id for each in voters))}"
    )
    silent = [each for each in voters if each is not leader and _is_silent(each, leader)]
    for each in silent:
        ago = (leader.last_fetch_timestamp - each.last_fetch_timestamp) / 1000
        since = f"for {ago:.0f} s" if each.last_fetch_timestamp > 0 else "since the leader was elected"
        yield QUORUM.wrong(
            f"voter {each.replica_id} has not fetched {since}",
            f"Start node {each.replica_id}, or look at its link to node {leader.replica_id}.",
        )
    needed = len(voters) // 2 + 1
    if silent and len(voters) - len(silent) == needed:
        yield QUORUM.wrong(
            f"of {len(voters)} voters {len(voters) - len(silent)} follow, and {needed} are needed: the next loss stops "
            "the controller",
            "Bring the silent voters back first.",
        )


def _is_silent(voter: ReplicaState, leader: ReplicaState) -> bool:
    """Both dates are of the leader's clock."""
    return leader.last_fetch_timestamp > 0 and leader.last_fetch_timestamp - voter.last_fetch_timestamp > SILENT_MS
