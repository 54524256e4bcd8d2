"""The addresses of a cluster: those that were given, and those that its brokers tell a client to connect to."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import NamedTuple

from highwater.cli.doctor.finding import ADDRESSES, Finding, listed
from highwater.client.answers import check
from highwater.client.client import Broker, Client
from highwater.client.connection import Connection
from highwater.client.failures import ClientFailure, UnsupportedApi
from highwater.client.reach import Obstacle, Reached, reach
from highwater.errors import Code, KafkaError
from highwater.model import Endpoint, NodeId, ResourceType
from highwater.wire.codec import UnsupportedField
from highwater.wire.messages.describe_cluster_request import DescribeClusterRequest
from highwater.wire.messages.describe_cluster_response import DescribeClusterResponse
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_configs_response import DescribeConfigsResponse
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import MetadataResponse

MOST_AT_ONCE = 16
_LOCAL_NAMES = ("localhost", "localhost.localdomain")


class Advertisement(NamedTuple):
    """The brokers that one of the given addresses names to a client."""

    at: Endpoint
    cluster_id: str
    brokers: tuple[Broker, ...]


class SeenBroker(NamedTuple):
    """A broker that answers at the address that clients are told."""

    id: NodeId
    endpoint: Endpoint
    connection: Connection
    settings: dict[str, str | None]
    """Empty if the broker does not show them to this client."""


class Sight(NamedTuple):
    """What was seen of a cluster from here."""

    findings: list[Finding]
    brokers: list[SeenBroker]
    away: frozenset[NodeId]
    """Brokers that the cluster knows, and that do not serve or do not answer."""


def look(client: Client, seconds: float) -> Sight:
    """Tries the addresses that were given, then those that they tell."""
    given = reach_all(client, client.bootstrap, seconds)
    findings = [_given(each) for each in given]
    told = [_ask(each.connection) for each in given if each.connection is not None]
    known = [each for each in told if isinstance(each, Advertisement)]
    findings += [each for each in told if isinstance(each, Finding)]
    fenced = _fenced([each.connection for each in given if each.connection is not None])
    for each in given:
        if each.connection is not None:
            each.connection.close()
    if not known:
        return Sight(findings, [], frozenset())
    findings += _disagreements(known)
    brokers = {(broker.id, broker.endpoint): broker for each in known for broker in each.brokers}
    live = {broker.id for broker in brokers.values()}
    seen: list[SeenBroker] = []
    reached = reach_all(client, [broker.endpoint for broker in brokers.values()], seconds)
    for broker, found in zip(brokers.values(), reached, strict=True):
        finding, met = _advertised(broker, found, known)
        findings.append(finding)
        if met is None:
            continue
        if any(each.id == met.id for each in seen):
            met.connection.close()  # it is advertised with several addresses
        else:
            seen.append(met)
    findings += [_is_fenced(each) for each in fenced if each.id not in live]
    away = {each.id for each in fenced} | live - {each.id for each in seen}
    return Sight(findings, seen, frozenset(away))


def reach_all(client: Client, endpoints: Sequence[Endpoint], seconds: float) -> list[Reached]:
    """All at once: a silent address does not delay the others."""
    with ThreadPoolExecutor(min(MOST_AT_ONCE, max(1, len(endpoints)))) as pool:
        return list(pool.map(lambda each: reach(client, each, seconds), endpoints))


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in _LOCAL_NAMES


def _given(reached: Reached) -> Finding:
    if reached.obstacle is None:
        return ADDRESSES.well(f"{reached.endpoint} (as given) answers")
    return ADDRESSES.wrong(f"{reached.endpoint} (as given): {reached.why_not}", _GIVEN_REMEDY[reached.obstacle])


_GIVEN_REMEDY = {
    Obstacle.NAME: "Check the spelling, and whether this machine's DNS or /etc/hosts has the name.",
    Obstacle.REFUSED: "Start the broker, or give the port of one of its listeners.",
    Obstacle.NO_ROUTE: "Check the network of this machine, and whether the address is of a network that it reaches.",
    Obstacle.TIME_OUT: "Check firewalls between here and there, and whether the machine is up.",
    Obstacle.SILENT: "Its process may be stopped or overloaded: look at it there, or start it again.",
    Obstacle.SECURITY: "Give the settings of the listener with --command-config.",
    Obstacle.OTHER: "Give the address of a broker's listener; a controller's is none for clients.",
}


def _ask(connection: Connection) -> Advertisement | Finding:
    try:
        answer = connection.request(MetadataRequest(topics=[]), MetadataResponse)
        check(answer.error_code)
    except (KafkaError, ClientFailure) as failed:
        return ADDRESSES.wrong(
            f"{connection.endpoint} does not tell its brokers: {failed}",
            "Give the address of a broker's listener; a controller's is none for clients.",
        )
    brokers = tuple(Broker(NodeId(each.node_id), Endpoint(each.host, each.port), each.rack) for each in answer.brokers)
    return Advertisement(connection.endpoint, answer.cluster_id or "", brokers)


def _fenced(connections: Iterable[Connection]) -> list[Broker]:
    """Brokers that are registered and do not serve, from the first server that can list them."""
    for connection in connections:
        try:
            request = DescribeClusterRequest(include_fenced_brokers=True)
            answer = connection.request(request, DescribeClusterResponse)
        except (KafkaError, ClientFailure, UnsupportedField, UnsupportedApi):
            continue
        return [
            Broker(NodeId(each.broker_id), Endpoint(each.host, each.port), each.rack)
            for each in answer.brokers
            if each.is_fenced
        ]
    return []


def _is_fenced(broker: Broker) -> Finding:
    obstacle = f"; it would be at {broker.endpoint}" if broker.endpoint.port > 0 else ""
    return ADDRESSES.wrong(
        f"broker {broker.id} is registered and does not serve: it has no live session with the controller{obstacle}",
        "Start it, or look into its log if it runs. If it is gone for good: "
        f"highwater cluster unregister --id {broker.id}",
    )


def _disagreements(known: Sequence[Advertisement]) -> Iterator[Finding]:
    clusters = {each.cluster_id: each.at for each in known}
    if len(clusters) > 1:
        named = "; ".join(f"{at} is of cluster {cluster}" for cluster, at in clusters.items())
        yield ADDRESSES.wrong(f"the given addresses are of different clusters: {named}", "Give those of one cluster.")
    for each in known:
        if not each.brokers:
            yield ADDRESSES.wrong(
                f"{each.at} knows of no broker that serves", "Wait until the brokers have registered, or start them."
            )


def _advertised(broker: Broker, reached: Reached, known: Sequence[Advertisement]) -> tuple[Finding, SeenBroker | None]:
    """The broker at the address that clients are told, if it is really there."""
    what = f"broker {broker.id} is advertised as {broker.endpoint}"
    if reached.connection is None:
        assert reached.obstacle is not None
        return ADDRESSES.wrong(f"{what}: {reached.why_not}", _advertised_remedy(broker, reached.obstacle, known)), None
    answer = _ask(reached.connection)
    other = answer.cluster_id if isinstance(answer, Advertisement) else None
    settings, stranger = _settings(reached.connection, broker.id)
    if other is not None and other not in {each.cluster_id for each in known}:
        stranger = f"a broker of another cluster ({other}) answers there"
    if stranger is None:
        return ADDRESSES.well(f"{what}, and answers there"), SeenBroker(
            broker.id, broker.endpoint, reached.connection, settings
        )
    reached.connection.close()
    return ADDRESSES.wrong(
        f"{what}, but {stranger}",
        f"Give each broker an address of its own: correct advertised.listeners of broker {broker.id}.",
    ), None


def _settings(connection: Connection, broker: NodeId) -> tuple[dict[str, str | None], str | None]:
    """The settings of the broker at this address, or that it is another one: each broker shows only its own."""
    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=str(broker), configuration_keys=None
    )
    try:
        answer = connection.request(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
    except (KafkaError, ClientFailure):
        return {}, None
    for result in answer.results:
        if result.error_code == Code.INVALID_REQUEST:
            return {}, "another broker answers there"
        if result.error_code == Code.NONE:
            return {each.name: each.value for each in result.configs}, None
    return {}, None


def _advertised_remedy(broker: Broker, obstacle: Obstacle, known: Sequence[Advertisement]) -> str:
    host = broker.endpoint.host
    came_by = [each.at.host for each in known]
    if is_loopback(host) and not any(is_loopback(each) for each in came_by):
        return (
            f"{host} is each machine's own address: clients on other machines look for broker {broker.id} on "
            f"themselves. Set advertised.listeners of broker {broker.id} to an address that its clients reach, such as "
            f"{listed(dict.fromkeys(came_by))}."
        )
    where = f"set advertised.listeners of broker {broker.id} to an address that clients reach"
    return {
        Obstacle.NAME: f"Make {host} known on this machine (DNS or /etc/hosts), or {where}.",
        Obstacle.REFUSED: f"Start broker {broker.id}; if it runs, {where}: its port or its host is another one.",
        Obstacle.NO_ROUTE: f"Check the link and the routes between here and {host}, or {where}.",
        Obstacle.TIME_OUT: f"Check the machine {host} and firewalls on the way, or {where}.",
        Obstacle.SILENT: f"The process of broker {broker.id} may be stopped or overloaded: look at it on its machine.",
        Obstacle.SECURITY: "Give the settings of the listener with --command-config.",
        Obstacle.OTHER: f"Something else has this port: {where}, or free the port.",
    }[obstacle]


def is_of_this_machine(host: str) -> bool:
    """Whether a broker at this host runs on this machine: an address of this machine can be bound here."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as sock:
                sock.bind(address)
                return True
        except OSError:
            continue
    return False
