"""Connections cost descriptors, whose number is limited: a client that takes them all takes no log offline."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import time_ns
from urllib.request import urlopen

import pytest

from highwater.model import Uuid
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.records import build
from tests.apache import free_ports
from tests.cluster.hostile_inputs import Target, produce
from tests.cluster.nodes import Node, wait_until
from tests.cluster.peer import Peer

ALLOWED = 256
PARTITIONS = 60
"""Of three files each: more than a node of so few descriptors keeps open."""
NOW = time_ns() // 1_000_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    http = f"127.0.0.1:{free_ports(1)[0]}"
    made = Node.fresh(tmp_path_factory.mktemp("descriptors"), {"highwater.http.listener": http})
    try:
        yield made.start(f"-n {ALLOWED}")
        assert "Traceback" not in made.output, made.output[-3000:]
    finally:
        made.kill()


def open_files(node: Node) -> int:
    return len(list(Path(f"/proc/{node.pid}/fd").iterdir()))


def send_to_all(peer: Peer, target: Target) -> list[int]:
    """One record to each partition, acknowledged once it is synced; the error codes."""
    batch = bytes(build([(NOW, b"key", b"value", ())]))
    answers = [peer.ask(produce(target, batch, partition=number), 9, ProduceResponse) for number in range(PARTITIONS)]
    return [answer.responses[0].partition_responses[0].error_code for answer in answers]


def create(peer: Peer, name: str) -> Uuid:
    synced = [CreatableTopicConfig(name="flush.messages", value="1")]
    topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1, configs=synced)
    answer = peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7, CreateTopicsResponse)
    assert [each.error_code for each in answer.topics] == [0]
    return answer.topics[0].topic_id


def status(node: Node) -> dict[str, object]:
    with urlopen(f"http://{node.properties['highwater.http.listener']}/status", timeout=60) as page:
        found: dict[str, object] = json.load(page)
    return found


def test_idle_connections_of_both_kinds_take_no_log_offline_and_keep_no_tool_from_looking(node: Node) -> None:
    host, _, port = node.properties["highwater.http.listener"].partition(":")
    with ExitStack() as idle, Peer(node.port) as bystander:
        target = Target("many", create(bystander, "many"))
        wait_until(lambda: set(send_to_all(bystander, target)) == {0})
        for _ in range(600):
            idle.enter_context(socket.create_connection((host, int(port)), timeout=60))
        for _ in range(400):
            idle.enter_context(Peer(node.port))
        for _ in range(3):
            assert set(send_to_all(bystander, target)) == {0}
        assert open_files(node) < ALLOWED
        assert status(node)["node"] == 1
    assert "goes offline" not in node.output
    assert "Too many open files" not in node.output


def test_a_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path)
    try:
        node.start("-S -n 256")
        limits = Path(f"/proc/{node.pid}/limits").read_text()
        found = re.search(r"Max open files\s+(\d+)\s+(\d+)", limits)
        assert found is not None and found[1] == found[2] != "256"
    finally:
        node.kill()
