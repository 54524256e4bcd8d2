"""The clusters against which the tools are compared with Apache's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from highwater.client import Admin, Client, NewTopic
from tests.cluster.nodes import Node
from tests.cluster.tools import Server


@pytest.fixture(scope="session", params=["apache", "ours"])
def server(request: pytest.FixtureRequest, apache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Each kind of server in turn: the tools say the same of both."""
    if request.param == "apache":
        kafka = request.getfixturevalue("apache_kafka")
        yield Server(kafka.bootstrap, kafka.log_dir)
        return
    # As Apache's has it: else every first member of a group waits three seconds for others.
    at_once = {"group.initial.rebalance.delay.ms": "0"}
    node = Node.fresh(tmp_path_factory.mktemp("tools-on-ours"), at_once).start()
    yield Server(node.bootstrap, node.log_dir, is_ours=True)
    node.stop()


@pytest.fixture(scope="session")
def transactional_topic(server: Server) -> str:
    """One partition with a committed, an aborted and again a committed transaction, where there are any."""
    topic = "tools-transactions"
    with Client(server.bootstrap) as client:
        if topic in Admin(client).list_topics():
            return topic  # Apache's server stays: one file turns from it to ours, and the next one back to it
        Admin(client).create_topics([NewTopic(topic, partitions=1)])
    if server.is_ours:
        producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "log_level": 0})
        for record in range(9):
            producer.produce(topic, key=f"k{record}", value=f"record {record}", partition=0)
        assert producer.flush(60) == 0
        return topic
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": "tools", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(60)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for record in range(3):
            producer.produce(topic, key=f"k{record}", value=f"transaction {number} record {record}", partition=0)
        assert producer.flush(60) == 0
        if commit:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    return topic
