"""Relations that must hold between settings before a node starts. Each rule says what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.config import quorum, replication, server, storage
from highwater.config.kinds import ConfigError
from highwater.config.topic import LogConfig, validate_topic_configs

if TYPE_CHECKING:
    from highwater.config.node import NodeConfig


def check(node: NodeConfig) -> None:
    """Raises ConfigError at the first broken rule."""
    _identity(node)
    _listeners(node)
    _roles(node)
    _logs(node)
    _timeouts(node)
    _limits(node)
    _selector(node)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ConfigError(problem)


def _identity(node: NodeConfig) -> None:
    _require(
        node.get(server.BROKER_ID) == node.get(server.NODE_ID),
        "You must set `node.id` to the same value as `broker.id`.",
    )


def _listeners(node: NodeConfig) -> None:
    listeners = node.listeners
    ports = [listener.endpoint.port for listener in listeners if listener.endpoint.port != 0]
    repeated = sorted({port for port in ports if ports.count(port) > 1})
    for port in repeated:
        hosts = [listener.endpoint.host for listener in listeners if listener.endpoint.port == port]
        _require(
            all(hosts) and len(set(hosts)) == len(hosts),
            f"listeners: port {port} is used by several listeners on the same interface",
        )
    for listener in listeners:
        _require(
            listener.protocol == "PLAINTEXT",
            f"listeners: {listener.name} uses {listener.protocol}; only PLAINTEXT is supported",
        )
    for listener in (*node.advertised_listeners, *node.advertised_controller_listeners):
        advertised = node.get(server.ADVERTISED_LISTENERS) is not None or listener in node.broker_listeners
        _require(
            listener.endpoint.host != "0.0.0.0" or not advertised,
            f"advertised.listeners: {listener.name} cannot use the nonroutable meta-address 0.0.0.0;"
            " use a routable IP address",
        )


def _roles(node: NodeConfig) -> None:
    bound = {listener.name for listener in node.listeners}
    names = node.controller_listener_names
    voters = {voter.id for voter in node.voters}
    shown = ",".join(names)
    _require(
        bool(voters) or bool(node.bootstrap_controllers),
        "either controller.quorum.bootstrap.servers must contain the bootstrap controllers"
        " or controller.quorum.voters the set of voters",
    )
    _require(
        node.get(server.INTER_BROKER_LISTENER_NAME) is None
        or server.SECURITY_INTER_BROKER_PROTOCOL.name not in node.static,
        "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
    )
    for name in names:
        _require(name in node.protocols, f"controller.listener.names: {name} is not in listener.security.protocol.map")
    if node.is_controller:
        _require(
            all(name in bound for name in names),
            f"controller.listener.names={shown} must only contain values appearing in listeners on a controller",
        )
        _require(
            not voters or node.node_id in voters,
            f"node.id={node.node_id} must be one of controller.quorum.voters, because process.roles has controller",
        )
    else:
        _require(
            not bound.intersection(names),
            f"controller.listener.names={shown} must not appear in listeners when process.roles=broker",
        )
        _require(
            node.node_id not in voters,
            f"node.id={node.node_id} must not be one of controller.quorum.voters, because process.roles=broker",
        )
        _require(
            not node.get(quorum.CONTROLLER_QUORUM_AUTO_JOIN_ENABLE),
            "controller.quorum.auto.join.enable needs the controller role in process.roles",
        )
    if node.is_broker:
        _broker_role(node)
    else:
        _require(
            bound.issubset(names),
            f"listeners must only contain those of controller.listener.names={shown} when process.roles=controller",
        )


def _broker_role(node: NodeConfig) -> None:
    bound = [listener.name for listener in node.broker_listeners]
    advertised = [listener.name for listener in node.advertised_listeners]
    _require(bool(advertised), "there must be at least one broker listener; are all in controller.listener.names?")
    _require(
        set(advertised).issubset(bound),
        f"advertised.listeners has names that listeners has not: {','.join(advertised)}, of {','.join(bound)}",
    )
    _require(
        node.inter_broker_listener in advertised,
        f"inter.broker.listener.name={node.inter_broker_listener} must be one of advertised.listeners:"
        f" {','.join(advertised)}",
    )


def _logs(node: NodeConfig) -> None:
    log = LogConfig.resolve(node, {})
    _require(log.segment_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(log.segment_jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(
        log.retention_ms >= 1 or log.retention_ms == -1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(log.flush_ms >= 0, "log.flush.interval.ms must be greater than or equal to 0")
    _require(
        node.get(storage.LOG_CLEANER_DEDUPE_BUFFER_SIZE) // max(1, node.get(storage.LOG_CLEANER_THREADS)) > 1 << 20,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    validate_topic_configs(node, {})


_WAITS_OF_VOTERS: Final = (
    quorum.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS,
    quorum.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS,
    quorum.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS,
    quorum.CONTROLLER_QUORUM_RETRY_BACKOFF_MS,
)


def _timeouts(node: NodeConfig) -> None:
    wait = node.get(replication.REPLICA_FETCH_WAIT_MAX_MS)
    _require(
        wait <= node.get(replication.REPLICA_SOCKET_TIMEOUT_MS),
        "replica.socket.timeout.ms must be at least replica.fetch.wait.max.ms",
    )
    _require(
        wait <= node.get(replication.REPLICA_LAG_TIME_MAX_MS),
        "replica.lag.time.max.ms must be at least replica.fetch.wait.max.ms",
    )
    for each in _WAITS_OF_VOTERS:
        _require(node.get(each) > 0, f"{each.name}={node.get(each)} must be positive: a voter would ask without a rest")
    heartbeat, session = node.get(quorum.BROKER_HEARTBEAT_INTERVAL_MS), node.get(quorum.BROKER_SESSION_TIMEOUT_MS)
    _require(
        heartbeat > 0 and heartbeat * 2 <= session,
        f"broker.heartbeat.interval.ms ({heartbeat}) must be positive and at most half of"
        f" broker.session.timeout.ms ({session})",
    )


def _limits(node: NodeConfig) -> None:
    queued = node.get(server.QUEUED_MAX_REQUEST_BYTES)
    _require(
        queued <= 0 or queued >= node.get(server.SOCKET_REQUEST_MAX_BYTES),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = node.max_connections_per_ip_overrides
    _require(
        node.get(server.MAX_CONNECTIONS_PER_IP) > 0 or bool(overrides),
        "max.connections.per.ip can be zero only if max.connections.per.ip.overrides is set.",
    )
    factor = node.get(server.DEFAULT_REPLICATION_FACTOR)
    _require(factor >= 1, f"default.replication.factor={factor} must be at least 1")


def _selector(node: NodeConfig) -> None:
    known = (replication.RACK_AWARE_SELECTOR, replication.LEADER_SELECTOR)
    chosen = node.get(replication.REPLICA_SELECTOR_CLASS)
    _require(
        chosen is None or chosen in known,
        f"replica.selector.class={chosen} cannot be loaded; those that are built in are {' and '.join(known)}",
    )
