"""The small files of a cluster hold what Kafka's would: the same lines, and the offsets and epochs that are true."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.client import Admin, Client, NewTopic, Producer
from highwater.model import TopicPartition, uuid_text
from highwater.wire.messages.describe_quorum_response import PartitionData
from tests.apache import ApacheKafka
from tests.cluster.stage import Stage, staged, wait_until

pytestmark = pytest.mark.slow

TOPIC = "checkpointed"
SETTINGS = {
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "60000",  # so that epochs begin for the reasons given here alone
}
FILES = (
    "replication-offset-checkpoint",
    f"{TOPIC}-0/leader-epoch-checkpoint",
    f"{TOPIC}-0/partition.metadata",
    "__cluster_metadata-0/quorum-state",
)


def write(client: Client, count: int) -> None:
    producer = Producer(client)
    for _ in range(count):
        producer.send(TopicPartition(TOPIC, 0), [(int(time.time() * 1000), b"k", b"v", ())])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Ten records in epoch 0, five in epoch 1, four in epoch 2; the first leader was killed, the second stopped."""
    with staged(tmp_path_factory.mktemp("checkpoints") / "data", 3, settings=SETTINGS) as stage:
        stage.create_topic_on(TOPIC, [1, 2, 3])
        for count, ends in ((10, stage.kill), (5, stage.stop), (4, None)):
            with stage.client() as client:
                write(client, count)
            if ends is not None:
                leader = stage.leader(TOPIC)
                assert leader is not None
                ends(leader)
                wait_until(lambda leader=leader: stage.leader(TOPIC) not in (None, leader), "another leads")
                stage.start(leader)
                wait_until(lambda: stage.isr(TOPIC) == {1, 2, 3}, "it is back")
        yield stage


def checkpoint(path: Path) -> list[tuple[str, ...]]:
    """The entries of a file in the layout of Kafka's checkpoints."""
    version, count, *entries = path.read_text().splitlines()
    assert (version, int(count)) == ("0", len(entries))
    return [tuple(entry.split(" ")) for entry in entries]


def masked(path: Path) -> list[str]:
    """The layout: numbers, ids and topic names without what they say; the lines of a list as one. A last line that is
    ended differs from one that is not."""
    text = re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", "<id>", path.read_text())
    lines = [re.sub(r"-?\d+", "<n>", re.sub(r"^\S+ (?=\d+ \d+$)", "<topic> ", line)) for line in text.split("\n")]
    return list(dict.fromkeys(lines))


def test_checkpoint_files_have_the_same_layout_as_kafkas(stage: Stage, apache_kafka: ApacheKafka) -> None:
    with Client(apache_kafka.bootstrap) as client:
        Admin(client).create_topics([NewTopic(TOPIC, partitions=1)])
        write(client, 3)
    theirs, ours = apache_kafka.log_dir, stage.log_dir(1)
    wait_until(lambda: f"{TOPIC} 0 3" in (theirs / FILES[0]).read_text(), "Kafka writes its checkpoint")
    for name in FILES:
        assert masked(ours / name) == masked(theirs / name), name


def test_the_high_watermark_of_every_replica_is_checkpointed_while_it_runs(stage: Stage) -> None:
    def checkpointed() -> list[list[tuple[str, ...]]]:
        """There is no file before the first time."""
        files = [stage.log_dir(node) / FILES[0] for node in stage.brokers]
        return [checkpoint(file) for file in files if file.exists()]

    wait_until(lambda: checkpointed() == [[(TOPIC, "0", "19")]] * 3, "19 on every broker")


def test_every_replica_knows_where_each_leader_s_epoch_began(stage: Stage) -> None:
    led = stage.led(TOPIC)[0]
    assert led.epoch == 2
    for node in stage.brokers:
        epochs = checkpoint(stage.log_dir(node) / FILES[1])
        assert epochs == [("0", "0"), ("1", "10"), ("2", "15")], node


def test_the_directory_names_the_topic_by_its_id(stage: Stage) -> None:
    with stage.client() as client:
        topic_id = uuid_text(Admin(client).list_topics()[TOPIC])
    for node in stage.brokers:
        lines = (stage.log_dir(node) / FILES[2]).read_text().splitlines()
        assert lines == ["version: 0", f"topic_id: {topic_id}"]


def described_quorum(stage: Stage) -> PartitionData:
    with stage.client() as client:
        return Admin(client).describe_quorum().topics[0].partitions[0]


def test_the_quorum_s_state_is_that_of_the_present_epoch(stage: Stage) -> None:
    def states() -> list[dict[str, Any]]:
        return [json.loads((stage.log_dir(node) / FILES[3]).read_text()) for node in stage.voters]

    def is_present() -> bool:
        quorum = described_quorum(stage)
        return {(each["leaderId"], each["leaderEpoch"]) for each in states()} == {
            (quorum.leader_id, quorum.leader_epoch)
        }

    wait_until(is_present, "every voter knows the leader")
    quorum = described_quorum(stage)
    directories = {voter.replica_id: uuid_text(voter.replica_directory_id) for voter in quorum.current_voters}
    assert sorted(directories) == [1, 2, 3]
    for state in states():
        assert state["data_version"] == 1
        voted = state["votedId"]
        assert state["votedDirectoryId"] == directories.get(voted, "AAAAAAAAAAAAAAAAAAAAAA")
    assert f"directory.id={directories[1]}" in (stage.log_dir(1) / "meta.properties").read_text().splitlines()
