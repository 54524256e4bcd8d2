"""The nodes of a cluster, and finding them again after they were started elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from highwater.client.admin import ClusterDescription
from highwater.client.client import Broker
from highwater.client.failures import Unreachable
from highwater.client.security import PLAINTEXT
from highwater.cluster import Cluster
from highwater.console.clients import Clients, OwnClient
from highwater.console.cluster_reader import ClusterReader
from highwater.console.discovery import Node, Nodes, local_nodes, updated
from highwater.errors import Code, KafkaError
from highwater.model import Endpoint, NodeId

NOWHERE = "127.0.0.1:9"


def broker(node: int, port: int = 9000) -> Broker:
    return Broker(NodeId(node), Endpoint("h", port + node), None)


def description(*nodes: int, cluster: str = "c", fenced: tuple[int, ...] = ()) -> ClusterDescription:
    return ClusterDescription(cluster, NodeId(1), tuple(map(broker, nodes)), frozenset(map(NodeId, fenced)))


class Listeners:
    """Where each broker says that it serves /status. One that is not there does not answer."""

    def __init__(self, **ports: int | None) -> None:
        self.ports = {int(name[1:]): port for name, port in ports.items()}
        self.asked: list[int] = []

    def ask(self, each: Broker) -> Endpoint | None:
        self.asked.append(each.id)
        if each.id not in self.ports:
            raise KafkaError(Code.REQUEST_TIMED_OUT)
        port = self.ports[each.id]
        return None if port is None else Endpoint("h", port)


def row(node: int, roles: tuple[str, ...] = ("broker", "controller"), **more: object) -> dict[str, Any]:
    return {"id": node, "roles": list(roles), "host": "127.0.0.1", "port": 9090 + node, **more}


def test_nodes_json_tells_roles_addresses_and_where_status_is_served(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    listed = [row(1, http="127.0.0.1:7001"), row(2, ("broker",)), row(101, ("controller",), http="127.0.0.1:7101")]
    file.write_text(json.dumps({"cluster_id": "c", "nodes": listed}))
    found = local_nodes(file)
    assert found is not None and found.cluster_id == "c" and found.is_highwater
    assert found.nodes[2] == Node(2, ("broker",), "127.0.0.1:9092")
    assert found.status == {1: Endpoint("127.0.0.1", 7001), 101: Endpoint("127.0.0.1", 7101)}
    assert found.servers == "127.0.0.1:9091,127.0.0.1:9092", "a client connects to brokers"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"cluster_id": "c"}', '{"cluster_id": "c", "nodes": [{}]}'])
def test_a_nodes_json_that_is_being_written_or_is_none_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "nodes.json").write_text(text)
    assert local_nodes(tmp_path / "nodes.json") is None
    assert local_nodes(tmp_path / "missing.json") is None


def test_a_broker_is_asked_once_where_it_serves_status() -> None:
    listeners = Listeners(n1=7001, n2=7002)
    found = updated(Nodes(), description(1, 2), (), listeners.ask, ())
    found = updated(found, description(1, 2), (), listeners.ask, ())
    assert found.status == {1: Endpoint("h", 7001), 2: Endpoint("h", 7002)} and listeners.asked == [1, 2]


def test_a_broker_that_is_silent_where_it_served_status_is_asked_again_and_found_elsewhere() -> None:
    listeners = Listeners(n1=7001, n2=7002)
    found = updated(Nodes(), description(1, 2), (), listeners.ask, ())
    listeners.ports[2] = 8002
    found = updated(found, description(1, 2), {2}, listeners.ask, ())
    assert found.status[2] == Endpoint("h", 8002) and listeners.asked == [1, 2, 2]


def test_a_broker_that_is_fenced_is_not_asked_and_keeps_its_address() -> None:
    listeners = Listeners(n1=7001, n2=7002)
    found = updated(Nodes(), description(1, 2), (), listeners.ask, ())
    found = updated(found, description(1, 2, fenced=(2,)), {2}, listeners.ask, ())
    assert listeners.asked == [1, 2] and found.status[2] == Endpoint("h", 7002)


def test_a_cluster_whose_brokers_could_not_be_asked_at_first_is_not_taken_for_apache_kafka() -> None:
    listeners = Listeners()
    found = updated(Nodes(), description(1), (), listeners.ask, ())
    assert not found.is_highwater
    listeners.ports = {1: 7001}
    assert updated(found, description(1), (), listeners.ask, ()).is_highwater


def test_apache_kafka_is_asked_once_and_a_broker_that_joins_later_once() -> None:
    listeners = Listeners(n1=None, n2=None)
    found = updated(Nodes(), description(1), (), listeners.ask, (1,))
    for _ in range(3):
        found = updated(found, description(1, 2), (), listeners.ask, (1,))
    assert listeners.asked == [1, 2] and not found.is_highwater
    assert found.nodes[1].roles == ("broker", "controller") and found.nodes[2].roles == ("broker",)


def test_a_broker_that_is_gone_stays_in_the_list_and_another_cluster_begins_a_new_one() -> None:
    listeners = Listeners(n1=7001, n2=7002, n3=7003)
    found = updated(Nodes(), description(1, 2), (), listeners.ask, (101,))
    found = updated(found, description(1), (), listeners.ask, (101,))
    assert sorted(found.nodes) == [1, 2, 101] and found.nodes[101].roles == ("controller",)
    found = updated(found, description(3, cluster="other"), (), listeners.ask, ())
    assert sorted(found.nodes) == [3] and sorted(found.status) == [3]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    with ExitStack() as stack:
        pair = [stack.enter_context(Cluster(brokers=1)) for _ in range(2)]
        for name, each in zip(("before", "after"), pair, strict=True):
            each.create_topic(name)
        yield pair[0], pair[1]


def tell(file: Path, cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap_servers.partition(":")
    listed = [{"id": 1, "roles": ["broker"], "host": host, "port": int(port)}]
    file.write_text(json.dumps({"cluster_id": "c", "nodes": listed}))


def read_topics(reader: ClusterReader) -> list[str | None]:
    reader.ask_statuses(frozenset())
    reader.ask_cluster()
    return [each.name for each in reader.topics]


@pytest.mark.slow
@pytest.mark.parametrize("follows, topics", [(True, ["after"]), (False, ["before"])])
def test_a_cluster_that_was_started_on_other_ports_is_found_by_nodes_json(
    tmp_path: Path, clusters: tuple[Cluster, Cluster], follows: bool, topics: list[str]
) -> None:
    file = tmp_path / "nodes.json"
    tell(file, clusters[0])
    bootstrap = clusters[0].bootstrap_servers
    with closing(ClusterReader(Clients(bootstrap, PLAINTEXT), file, follows=follows)) as reader:
        assert read_topics(reader) == ["before"]
        tell(file, clusters[1])
        assert read_topics(reader) == topics, "servers that were named by hand stay"
        assert (reader.clients.bootstrap == bootstrap) is not follows


def test_what_is_asked_again_soon_is_given_up_soon() -> None:
    """A partition that loses its leader would hold up a whole round for as long as a person's question may take."""
    clients = Clients(NOWHERE, PLAINTEXT)
    with clients.borrowed() as lent:
        assert OwnClient(clients).get().timeout <= 1.0 < lent.timeout


def test_a_client_of_servers_that_were_left_tries_no_longer_and_is_not_lent_again() -> None:
    clients = Clients(NOWHERE, PLAINTEXT)
    own = OwnClient(clients)
    with clients.borrowed() as idle:
        pass
    with clients.borrowed() as lent:
        assert lent is idle, "a client is used again"
        old = own.get()
        assert own.get() is old
        clients.follow(NOWHERE)
        old.on_delay(Unreachable("no server answers"), 1.0)
        clients.follow("127.0.0.1:10")
        with pytest.raises(Unreachable):
            old.on_delay(Unreachable("no server answers"), 1.0)
    with clients.borrowed() as other:
        assert other is not lent and own.get() is not old
        assert [each.port for each in (*other.bootstrap, *own.get().bootstrap)] == [10, 10]
