"""The clusters against which the tools are compared with Apache's own."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from highwater.client import Admin, Client, NewTopic
from tests.cluster.tools import Server


@pytest.fixture(scope="session", params=["apache"])
def server(request: pytest.FixtureRequest, apache: None) -> Server:
    """Each kind of server in turn; a further kind is one more name here and a branch that starts it."""
    kafka = request.getfixturevalue("apache_kafka")
    return Server(kafka.bootstrap, kafka.log_dir)


@pytest.fixture(scope="session")
def transactional_topic(server: Server) -> str:
    """One partition with a committed, an aborted and again a committed transaction, by librdkafka."""
    topic = "tools-transactions"
    with Client(server.bootstrap) as client:
        Admin(client).create_topics([NewTopic(topic, partitions=1)])
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": "tools", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(60)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for record in range(3):
            producer.produce(topic, key=f"k{record}", value=f"transaction {number} record {record}", partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    return topic
