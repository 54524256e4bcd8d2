"""What one client can do to all others: `python bench/attacks.py`, with a row for each attack.

While an attack runs, another client asks ApiVersions every 10 ms. Its answers may be late by what the machine withheld
from a spinning control process, and by no more than 50 ms beyond that; the node's memory stays below 300 MB, and no log
goes offline.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from urllib.request import urlopen

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from time import time_ns

from bench import processes, report
from bench.responsiveness import ALLOWED, Phase, watched
from bench.systems import Highwater
from highwater.wire.codec import Message
from highwater.wire.compression import Codec, compress
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.records import build
from highwater.wire.records import header as layout
from highwater.wire.records.header import HEADER_SIZE
from tests.cluster.greedy_groups import await_coordinator, commit_for_many_groups, join_many_groups
from tests.cluster.peer import Peer, asked
from tests.cluster.unread_answers import leave_unread, make_large_group

ALLOWED_MEMORY = 300e6
NOW = time_ns() // 1_000_000
_OFFLINE = re.compile(r"[a-z_]*offlinereplicacount\b")
ROUNDS = 3
"""How often an attack is repeated, one after the other."""


@dataclass(frozen=True)
class Victim:
    """One node, with what attacks need to be there."""

    system: Highwater
    port: int
    wide: str
    """A topic of 1 000 partitions."""
    narrow: str
    """A topic of 50 partitions."""
    packed: str
    """A topic whose batches are compressed anew, at zstd's highest level."""


@dataclass(frozen=True)
class Attack:
    fault: str
    name: str
    run: Callable[[Victim], None]
    """Once. It ends when the attack is answered or refused."""
    rounds: int = ROUNDS


@dataclass
class Outcome:
    fault: str
    phase: Phase
    memory: int
    """The most that the node ever had, in bytes, since it was started."""
    offline: int
    """Logs that are offline afterwards."""


def sent(victim: Victim, message: Message, version: int, connections: int = 1) -> None:
    """Ask on so many connections at once, and wait until all are answered or closed."""
    peers = [Peer(victim.port, 120.0) for _ in range(connections)]
    try:
        for peer in peers:
            peer.send(asked(message, version))
        for peer in peers:
            peer.answer()
    finally:
        for peer in peers:
            peer.close()


# Requests that are small and cost much


def metadata_pipelined_on_many_connections(victim: Victim) -> None:
    """Sent to all before any is read: answers of all connections are due at once."""
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=victim.narrow)])
    pipelined = b"".join(asked(wanted, 12, number) for number in range(100))
    with ExitStack() as peers:
        asking = [peers.enter_context(Peer(victim.port, 120.0)) for _ in range(60)]
        for peer in asking:
            peer.send(pipelined)
        for peer in asking:
            for _ in range(100):
                peer.answer()


def metadata_of_one_topic_many_times(victim: Victim) -> None:
    sent(victim, MetadataRequest(topics=[MetadataRequestTopic(name=victim.wide)] * 400), 1)


def descriptions_of_one_broker_many_times(victim: Victim) -> None:
    resources = [DescribeConfigsResource(resource_type=4, resource_name="1")] * 200
    sent(victim, DescribeConfigsRequest(resources=resources), 4)


def fetch_of_many_partitions(victim: Victim) -> None:
    partitions = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(250_000)]
    topics = [FetchTopic(topic=victim.narrow, partitions=partitions)]
    sent(victim, FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1, topics=topics), 4)


def producers_of_very_many_partitions(victim: Victim) -> None:
    topics = [TopicRequest(name=victim.wide, partition_indexes=list(range(19_900)))]
    sent(victim, DescribeProducersRequest(topics=topics), 0)


def coordinators_of_long_names(victim: Victim) -> None:
    keys = [f"{index:032000d}" for index in range(60)]
    sent(victim, FindCoordinatorRequest(key_type=0, coordinator_keys=keys), 4)


def topics_of_long_settings(victim: Victim) -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value="1" * 32_000)] * 3_000
    topic = CreatableTopic(name="long", num_partitions=1, replication_factor=1, configs=configs)
    sent(victim, CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=True), 7, connections=3)


def topics_as_large_as_they_may_be(victim: Victim) -> None:
    """Each just below what a request of its kind may have."""
    configs = [CreatableTopicConfig(name="retention.ms", value="1" * 32_000)] * 255
    topic = CreatableTopic(name="long", num_partitions=1, replication_factor=1, configs=configs)
    sent(victim, CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=True), 7, connections=8)


def topic_of_very_many_partitions(victim: Victim) -> None:
    """Decided, and not made."""
    topic = CreatableTopic(name="wide", num_partitions=9_990, replication_factor=1)
    sent(victim, CreateTopicsRequest(topics=[topic], timeout_ms=60_000, validate_only=True), 7)


def topic_of_many_partitions(victim: Victim) -> None:
    victim.system.delete_topic(victim.system.create_topic(2_000))


@cache
def bomb(codec: int = Codec.ZSTD, size: int = 60 << 20) -> bytes:
    """A batch of one record of `size` bytes that takes a few thousand."""
    plain = build([(NOW, None, bytes(size), ())])
    batch = bytearray(plain[:HEADER_SIZE]) + compress(codec, plain[HEADER_SIZE:])
    header = layout.read_header(batch)._replace(length=len(batch) - layout.LENGTH_PREFIX, attributes=codec)
    layout.HEADER.pack_into(batch, 0, *header)
    layout.set_max_timestamp(batch, 0, len(batch), NOW, False)
    return bytes(batch)


def bombs_for_one_partition(victim: Victim) -> None:
    rows = [PartitionProduceData(index=0, records=bomb())] * 50
    data = [TopicProduceData(name=victim.narrow, partition_data=rows)]
    sent(victim, ProduceRequest(acks=1, timeout_ms=60_000, topic_data=data), 9)


def bombs_for_many_partitions(victim: Victim) -> None:
    rows = [PartitionProduceData(index=index, records=bomb()) for index in range(50)]
    data = [TopicProduceData(name=victim.narrow, partition_data=rows)]
    sent(victim, ProduceRequest(acks=1, timeout_ms=60_000, topic_data=data), 9)


def batch_to_be_compressed_anew(victim: Victim) -> None:
    batch = bytes(build([(NOW, None, os.urandom(900_000), ())]))
    data = [TopicProduceData(name=victim.packed, partition_data=[PartitionProduceData(index=0, records=batch)])]
    sent(victim, ProduceRequest(acks=1, timeout_ms=60_000, topic_data=data), 9)


def look_ups_by_time(victim: Victim) -> None:
    """Each inflates a batch, to find that its first record is the one."""
    rows = [PartitionProduceData(index=index, records=bomb()) for index in range(10)]
    data = [TopicProduceData(name=victim.narrow, partition_data=rows)]
    sent(victim, ProduceRequest(acks=1, timeout_ms=60_000, topic_data=data), 9)
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=NOW) for index in range(10)]
    topics = [ListOffsetsTopic(name=victim.narrow, partitions=partitions)]
    sent(victim, ListOffsetsRequest(replica_id=-1, topics=topics), 5, connections=5)


# Groups that are kept


def members_of_many_groups(victim: Victim) -> None:
    await_coordinator(victim.port)
    join_many_groups(victim.port)


def offsets_of_many_groups(victim: Victim) -> None:
    await_coordinator(victim.port)
    commit_for_many_groups(victim.port, victim.wide, 200, 10)


def offsets_of_groups_of_long_names(victim: Victim) -> None:
    """A small request: the name stands in each of the records that would be written."""
    await_coordinator(victim.port)
    commit_for_many_groups(victim.port, victim.wide, 900, 1, 32_000)


# Peers that are there and do nothing


def write(victim: Victim, count: int) -> None:
    """Single records to a partition that nothing else is written to, one after the other."""
    batch = bytes(build([(NOW, b"key", b"value", ())]))
    data = TopicProduceData(name=victim.wide, partition_data=[PartitionProduceData(index=0, records=batch)])
    with Peer(victim.port, 120.0) as peer:
        for _ in range(count):
            peer.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 9, ProduceResponse)


def answers_that_nobody_reads(victim: Victim) -> None:
    make_large_group(victim.port)
    with ExitStack() as deaf:
        leave_unread(victim.port, deaf, 60)
        write(victim, 200)


def fetches_that_wait_for_days(victim: Victim) -> None:
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    topics = [FetchTopic(topic=victim.wide, partitions=[row])]
    waiting = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1 << 30, max_bytes=1 << 30, topics=topics, session_epoch=-1)
    pipelined = b"".join(asked(waiting, 12, number) for number in range(250))
    with ExitStack() as readers:
        for _ in range(20):
            readers.enter_context(Peer(victim.port)).send_at_most(pipelined)
        write(victim, 200)
    write(victim, 200)


def connections_that_say_nothing(victim: Victim) -> None:
    host, _, port = victim.system.http.rpartition(":")
    with ExitStack() as idle:
        for _ in range(600):
            idle.enter_context(socket.create_connection((host, int(port)), timeout=60))
            idle.enter_context(Peer(victim.port))
        write(victim, 200)


ATTACKS: Sequence[Attack] = (
    Attack("C18", "Metadata v1 naming a topic of 1 000 partitions 400 times", metadata_of_one_topic_many_times),
    Attack("C18", "Produce: one partition 50 times, 60 MiB each inflated", bombs_for_one_partition),
    Attack("C18", "Produce: 50 partitions, 60 MiB each inflated", bombs_for_many_partitions, 1),
    Attack("C18", "Produce to a topic that compresses anew at zstd 22", batch_to_be_compressed_anew),
    Attack("C18", "DescribeConfigs of one broker 200 times", descriptions_of_one_broker_many_times),
    Attack("C18", "Fetch v4 of 250 000 partitions", fetch_of_many_partitions),
    Attack("F961", "DescribeProducers of 19 900 partitions", producers_of_very_many_partitions),
    Attack("C18", "FindCoordinator of 60 keys of 32 000 bytes", coordinators_of_long_names),
    Attack("F44", "CreateTopics of 3 000 settings of 32 000 bytes, 3 times", topics_of_long_settings),
    Attack("F44", "CreateTopics of 8 MiB on 8 connections", topics_as_large_as_they_may_be),
    Attack("F48", "CreateTopics of 9 990 partitions, to be checked", topic_of_very_many_partitions),
    Attack("F48", "CreateTopics of 2 000 partitions, and DeleteTopics", topic_of_many_partitions, 1),
    Attack("C18", "100 Metadata pipelined on 60 connections", metadata_pipelined_on_many_connections),
    Attack("C19", "ListOffsets by time of 10 partitions on 5 connections", look_ups_by_time, 1),
    Attack("C20", "40 DescribeGroups of 0.5 MB on 60 connections, unread", answers_that_nobody_reads, 1),
    Attack("C21", "250 fetches that wait for days on 20 connections", fetches_that_wait_for_days, 1),
    Attack("C22", "1 200 connections that say nothing", connections_that_say_nothing, 1),
    # The last: no group finds room after them.
    Attack("F200", "JoinGroup of 1 MB, 10 new groups on 20 connections", members_of_many_groups),
    Attack("F200", "OffsetCommit of 0.8 MB, 10 new groups on 20 connections", offsets_of_many_groups),
    Attack("F201", "OffsetCommit of 900 partitions for a name of 32 000 bytes", offsets_of_groups_of_long_names),
)


@click.command()
@click.option("--only", help="Only attacks whose fault or name has this in it.")
@click.option("--stalls", is_flag=True, help="Note what held the loop up, in bench/results.")
def main(only: str | None, stalls: bool) -> None:
    """Measure what another client sees of each attack."""
    chosen = [each for each in ATTACKS if only is None or only in each.fault or only in each.name]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="highwater-attacks-") as home:
        system = Highwater(Path(home) / "node", 1, stalls=stalls)
        try:
            system.start()
            victim = prepared(system)
            for attack in chosen:
                click.echo(f"{time.strftime('%H:%M:%S')} {attack.fault} {attack.name}", err=True)
                outcomes.append(measured(attack, victim))
        finally:
            system.stop()
            report.keep_stalls(system.directory)
        show(outcomes)
        keep(outcomes, Path(home))


def prepared(system: Highwater) -> Victim:
    wide, narrow = system.create_topic(1_000), system.create_topic(50)
    packed = system.create_topic(1, {"compression.type": "zstd", "compression.zstd.level": "22"})
    return Victim(system, int(system.bootstrap.rpartition(":")[2]), wide, narrow, packed)


def measured(attack: Attack, victim: Victim) -> Outcome:
    def repeated() -> None:
        for _ in range(attack.rounds):
            attack.run(victim)

    phase = watched(attack.name, victim.system, repeated)
    return Outcome(attack.fault, phase, processes.peak_memory(victim.system.pids()), offline_logs(victim.system))


def offline_logs(system: Highwater) -> int:
    with urlopen(f"http://{system.http}/metrics") as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if _OFFLINE.match(line))


def show(outcomes: Sequence[Outcome]) -> None:
    table = Table(title="what another client sees of an attack")
    table.add_column("")
    table.add_column("attack")
    for heading in ("s", "median ms", "worst ms", "beyond the control", "memory MB", "offline", ""):
        table.add_column(heading, justify="right")
    for each in outcomes:
        phase = each.phase
        good = phase.excess <= ALLOWED and each.memory <= ALLOWED_MEMORY and not each.offline
        table.add_row(
            each.fault,
            phase.name,
            f"{phase.lasted:.1f}",
            *(f"{value * 1000:.1f}" for value in (phase.median, phase.worst, phase.excess)),
            f"{each.memory / 1e6:.0f}",
            str(each.offline),
            "[green]ok" if good else "[red]no",
        )
    Console(width=None if os.isatty(1) else 150).print(table)


def keep(outcomes: Sequence[Outcome], directory: Path) -> None:
    report.RESULTS.mkdir(exist_ok=True)
    path = report.RESULTS / f"attacks-{time.strftime('%Y%m%d-%H%M%S')}.json"
    told = report.circumstances(1, 1, directory)
    path.write_text(json.dumps({**told, "attacks": [asdict(each) for each in outcomes]}, indent=2))
    click.echo(f"written to {path}")


if __name__ == "__main__":
    main()
