"""Several listeners: each client gets the addresses of the listener that it connected to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.apache import free_ports
from tests.cluster.nodes import Node

MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,ELSEWHERE:PLAINTEXT"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    first, second, elsewhere, controller = free_ports(4)
    ports = {"PLAINTEXT": first, "SECOND": second, "ELSEWHERE": elsewhere, "CONTROLLER": controller}
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{first},SECOND://localhost:{second},ELSEWHERE://10.9.8.7:9999",
        "listener.security.protocol.map": MAP,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
    }
    node = Node.fresh(tmp_path_factory.mktemp("listeners"), properties)
    try:
        yield node.start()
    finally:
        node.kill()


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SECOND", "ELSEWHERE"])
def test_a_client_gets_the_addresses_of_its_listener(node: Node, listener: str) -> None:
    port = node.port_of(listener)
    expected = {
        "PLAINTEXT": ("127.0.0.1", port),
        "SECOND": ("localhost", port),
        "ELSEWHERE": ("10.9.8.7", 9999),
    }
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})

    described = admin.list_topics(timeout=60)

    (broker,) = described.brokers.values()
    assert (broker.id, broker.host, broker.port) == (1, *expected[listener])


def test_each_listener_that_can_be_reached_takes_records(node: Node) -> None:
    for listener in ("PLAINTEXT", "SECOND"):
        where = f"127.0.0.1:{node.port_of(listener)}"
        producer = Producer({"bootstrap.servers": where, "broker.address.family": "v4", "log_level": 0})
        producer.produce("through", listener)
        assert producer.flush(60) == 0


def test_the_controllers_listener_takes_no_records(node: Node) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port_of('CONTROLLER')}", "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
