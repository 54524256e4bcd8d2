"""`highwater quorum`: kafka-metadata-quorum.sh, its `describe`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.command_group import CommandGroup
from highwater.cli.output import output_option, print_json
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import fail
from highwater.client.admin import Admin
from highwater.client.client import Broker, Client
from highwater.client.failures import ClientFailure, RequestTimeout
from highwater.errors import KafkaError, is_retriable
from highwater.model import ZERO_UUID, uuid_text
from highwater.wire.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData, ReplicaState

COLUMNS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")

SOON = {"default.api.timeout.ms": "5000", "request.timeout.ms": "5000"}
"""An election takes less. Without a leader, a broker would wait for one as long as the request allows."""
ANSWER_SECONDS = 1.0


@click.group("quorum", cls=CommandGroup)
@bootstrap_option
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@click.pass_context
def command(context: click.Context, bootstrap_server: str | None, command_config: str | None) -> None:
    """Describe the metadata quorum: its leader, its followers, and how far each replica is."""
    context.obj = (bootstrap_server, command_config)


@command.command("describe")
@click.option("--status", is_flag=True, help="A short summary.")
@click.option("--replication", is_flag=True, help="Every replica and how far it has come.")
@click.option("--human-readable", is_flag=True, help="With --replication: times as ages.")
@output_option
@click.pass_obj
def describe(
    servers: tuple[str | None, str | None], status: bool, replication: bool, human_readable: bool, output: str
) -> None:
    """Describe the quorum's state: --status or --replication."""
    bootstrap, path = servers
    if status and replication:
        fail("Only one of --status or --replication should be specified with describe sub-command")
    if not status and not replication and output != "json":
        fail("One of --status or --replication must be specified with describe sub-command")
    if status and human_readable:
        fail("The option --human-readable is only supported along with --replication")
    try:
        properties = {**SOON, **(load_properties(path) if path else {})}
        with open_client(require_cluster(bootstrap), properties, client_id="adminclient", what=None) as client:
            admin = Admin(client)
            cluster = admin.describe_cluster(fenced=True)
            quorum = _quorum(admin, cluster.brokers)
            cluster_id = cluster.cluster_id
    except (KafkaError, ClientFailure, ValueError, OSError) as error:
        fail(str(error))
    partition = quorum.topics[0].partitions[0]
    if output == "json":
        print_json(_as_json(cluster_id, quorum, partition))
    elif status:
        click.echo(_status(cluster_id, quorum, partition))
    else:
        click.echo(_table(partition, human_readable))


def _quorum(admin: Admin, brokers: Sequence[Broker]) -> DescribeQuorumResponse:
    """The answer of the quorum's leader, or the error that there is none."""
    try:
        return admin.describe_quorum()
    except (KafkaError, RequestTimeout) as failed:
        if isinstance(failed, KafkaError) and not is_retriable(failed.code):
            raise
        silent = [f"{broker.id} at {broker.endpoint}" for broker in brokers if not _answers(admin.client, broker)]
        why = f"no answer comes from broker {', broker '.join(silent)}" if silent else "every broker answers"
        fail(
            f"The quorum is lost or has no leader: no controller answered within {admin.client.timeout:g} s, and "
            f"{why}. More than half of the voters must run."
        )


def _answers(client: Client, broker: Broker) -> bool:
    try:
        client.dial(broker.endpoint, dial_timeout=ANSWER_SECONDS).close()
    except ClientFailure:
        return False
    return True


def _status(cluster_id: str, quorum: DescribeQuorumResponse, partition: PartitionData) -> str:
    voters = partition.current_voters
    leader = next(voter for voter in voters if voter.replica_id == partition.leader_id)
    slowest = min(voters, key=lambda voter: voter.log_end_offset)
    if slowest is leader:
        lag_ms = 0
    elif min(leader.last_caught_up_timestamp, slowest.last_caught_up_timestamp) >= 0:
        lag_ms = leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp
    else:
        lag_ms = -1
    rows = {
        "ClusterId": cluster_id,
        "LeaderId": partition.leader_id,
        "LeaderEpoch": partition.leader_epoch,
        "HighWatermark": partition.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - slowest.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _replicas(quorum, voters),
        "CurrentObservers": _replicas(quorum, partition.observers),
    }
    return "\n".join(f"{name + ':':<24}{value}" for name, value in rows.items())


def _as_json(cluster_id: str, quorum: DescribeQuorumResponse, partition: PartitionData) -> dict[str, object]:
    endpoints = {node.node_id: [f"{at.name}://{at.host}:{at.port}" for at in node.listeners] for node in quorum.nodes}
    roles = [("voter", each) for each in partition.current_voters] + [
        ("observer", each) for each in partition.observers
    ]
    return {
        "cluster_id": cluster_id,
        "leader_id": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "replicas": [
            {
                "id": replica.replica_id,
                "directory_id": uuid_text(replica.replica_directory_id),
                "role": "leader" if replica.replica_id == partition.leader_id else role,
                "log_end_offset": replica.log_end_offset,
                "last_fetch_timestamp": replica.last_fetch_timestamp,
                "last_caught_up_timestamp": replica.last_caught_up_timestamp,
                "endpoints": endpoints.get(replica.replica_id, []),
            }
            for role, replica in roles
        ],
    }


def _replicas(quorum: DescribeQuorumResponse, replicas: list[ReplicaState]) -> str:
    endpoints = {node.node_id: node.listeners for node in quorum.nodes}
    shown = []
    for replica in replicas:
        parts = [f'"id": {replica.replica_id}']
        if replica.replica_directory_id != ZERO_UUID:
            parts.append(f'"directoryId": "{uuid_text(replica.replica_directory_id)}"')
        listeners = [f'"{at.name}://{at.host}:{at.port}"' for at in endpoints.get(replica.replica_id, ())]
        if listeners:
            parts.append(f'"endpoints": [{", ".join(listeners)}]')
        shown.append("{" + ", ".join(parts) + "}")
    return f"[{', '.join(shown)}]"


def _table(partition: PartitionData, human_readable: bool) -> str:
    leader = next(voter for voter in partition.current_voters if voter.replica_id == partition.leader_id)
    followers = [voter for voter in partition.current_voters if voter is not leader]
    ordered = [(leader, "Leader"), *((each, "Follower") for each in followers)]
    ordered += [(each, "Observer") for each in partition.observers]
    rows = [COLUMNS]
    for replica, role in ordered:
        rows.append(
            (
                str(replica.replica_id),
                uuid_text(replica.replica_directory_id),
                str(replica.log_end_offset),
                str(leader.log_end_offset - replica.log_end_offset),
                _time(replica.last_fetch_timestamp, human_readable),
                _time(replica.last_caught_up_timestamp, human_readable),
                role,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "\t".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + "\t" for row in rows
    )


def _time(timestamp: int, human_readable: bool) -> str:
    if timestamp < 0:
        return "-1"
    return f"{int(time.time() * 1000) - timestamp} ms ago" if human_readable else str(timestamp)
