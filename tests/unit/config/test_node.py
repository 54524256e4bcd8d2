"""A node's configuration: what is given, what is changed while running, and what does not go together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType

import pytest

from highwater.config import (
    BROKER_RACK,
    BROKER_SESSION_TIMEOUT_MS,
    LEADER_SELECTOR,
    LOG_RETENTION_HOURS,
    LOG_RETENTION_MS,
    LOG_SEGMENT_BYTES,
    MESSAGE_MAX_BYTES,
    MIN_INSYNC_REPLICAS,
    NUM_PARTITIONS,
    RACK_AWARE_SELECTOR,
    REPLICA_SELECTOR_CLASS,
    SETTINGS,
    ConfigError,
    Listener,
    LogConfig,
    NodeConfig,
    Setting,
    Update,
    Voter,
    validate_broker_configs,
)
from highwater.config.kinds import INT
from highwater.model import Endpoint, NodeId

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "log.dirs": "/data/a,/data/b",
}
BROKER = {
    "process.roles": "broker",
    "node.id": "4",
    "listeners": "PLAINTEXT://:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@a:9093,2@b:9093",
}


def without(properties: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in names}


def test_values_have_their_own_types_and_kafkas_defaults() -> None:
    node = NodeConfig.parse(COMBINED | {"num.partitions": " 3 ", "broker.rack": "r1"})
    assert node.get(NUM_PARTITIONS) == 3
    assert node.get(BROKER_RACK) == "r1"
    assert node.get(LOG_SEGMENT_BYTES) == 1 << 30
    assert node.get(LOG_RETENTION_MS) is None


def test_a_combined_node_knows_its_listeners_roles_and_directories() -> None:
    node = NodeConfig.parse(COMBINED)
    assert (node.node_id, node.is_broker, node.is_controller) == (NodeId(1), True, True)
    assert node.broker_listeners == (Listener("PLAINTEXT", "PLAINTEXT", Endpoint("127.0.0.1", 9092)),)
    assert node.controller_listeners == (Listener("CONTROLLER", "PLAINTEXT", Endpoint("127.0.0.1", 9093)),)
    assert node.advertised_listeners == node.broker_listeners
    assert node.inter_broker_listener == "PLAINTEXT"
    assert node.log_dirs == ("/data/a", "/data/b")
    assert node.metadata_log_dir == "/data/a"
    assert node.bootstrap_controllers == (Endpoint("127.0.0.1", 9093),)
    assert node.voters == ()


def test_advertised_listeners_replace_the_bound_ones_for_clients() -> None:
    node = NodeConfig.parse(
        COMBINED
        | {
            "listeners": "IN://:9092,OUT://0.0.0.0:9094,CONTROLLER://:9093",
            "advertised.listeners": "OUT://broker.example:19094,IN://[::1]:9092",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "IN",
        }
    )
    assert [listener.name for listener in node.broker_listeners] == ["IN", "OUT"]
    assert [listener.endpoint for listener in node.advertised_listeners] == [
        Endpoint("broker.example", 19094),
        Endpoint("::1", 9092),
    ]
    assert node.advertised_controller_listeners[0].endpoint == Endpoint("", 9093)


def test_listener_names_are_upper_case_and_a_repeated_entry_counts_once() -> None:
    node = NodeConfig.parse(COMBINED | {"listeners": "plaintext://h:1,controller://h:2,plaintext://h:1"})
    assert [listener.name for listener in node.listeners] == ["PLAINTEXT", "CONTROLLER"]


def test_voters_are_ids_with_addresses() -> None:
    assert NodeConfig.parse(BROKER).voters == (
        Voter(NodeId(1), Endpoint("a", 9093)),
        Voter(NodeId(2), Endpoint("b", 9093)),
    )


def test_broker_id_is_the_old_name_of_node_id() -> None:
    assert NodeConfig.parse(without(COMBINED, "node.id") | {"broker.id": "1"}).node_id == 1
    with pytest.raises(ConfigError, match="same value as `broker.id`"):
        NodeConfig.parse(COMBINED | {"broker.id": "2"})


def test_the_settings_of_an_ordinary_server_properties_are_all_known() -> None:
    ordinary = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "socket.request.max.bytes": "104857600",
        "log.dirs": "/data",
        "num.partitions": "1",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
    }
    node = NodeConfig.parse(ordinary)
    assert node.unknown == ()
    assert [listener.endpoint.host for listener in node.advertised_controller_listeners] == ["localhost"]


def test_unknown_keys_are_named_and_passed_over() -> None:
    assert NodeConfig.parse(COMBINED | {"my.plugin.key": "x", "num.partition": "2"}).unknown == (
        "my.plugin.key",
        "num.partition",
    )


@pytest.mark.parametrize("name", ["ssl.keystore.location", "authorizer.class.name", "listener.name.x.sasl.jaas.config"])
def test_a_kafka_setting_that_is_not_supported_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"configuration {name}: Not supported"):
        NodeConfig.parse(COMBINED | {name: "x"})


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"node.id": "-1"}, "Invalid value -1 for configuration node.id: Value must be at least 0"),
    (
        {"highwater.http.listener": "8080"},
        "Invalid value 8080 for configuration highwater.http.listener: it must be host:port",
    ),
    ({"num.partitions": "many"}, "Invalid value many for configuration num.partitions: Not a number of type INT"),
    ({"process.roles": "zookeeper"}, "String must be one of: broker, controller"),
    ({"process.roles": ""}, "'process.roles' must not be empty"),
    ({"log.dirs": ""}, "'log.dirs' must not be empty"),
    ({"listeners": "9092"}, "cannot read '9092'; expected NAME://host:port"),
    ({"listeners": "PLAINTEXT://h:70000,CONTROLLER://h:1"}, "cannot read"),
    ({"listeners": "MINE://h:1,CONTROLLER://h:2"}, "no security protocol is defined for listener MINE"),
    ({"listeners": "SSL://h:1,CONTROLLER://h:2"}, "SSL uses SSL; only PLAINTEXT is supported"),
    ({"listeners": "PLAINTEXT://h:1,CONTROLLER://h:1"}, "port 1 is used by several listeners"),
    ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2,CONTROLLER://h:3"}, "must have a different name"),
    ({"listeners": "PLAINTEXT://h:1"}, "controller.listener.names=CONTROLLER must only contain"),
    ({"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://h:2"}, "cannot use the nonroutable meta-address 0.0.0.0"),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "cannot use the nonroutable meta-address 0.0.0.0"),
    ({"advertised.listeners": "SSL://h:1"}, "advertised.listeners has names that listeners has not"),
    ({"inter.broker.listener.name": "OTHER"}, "inter.broker.listener.name=OTHER must be one of"),
    ({"listener.security.protocol.map": "PLAINTEXT:TLS"}, "cannot read 'PLAINTEXT:TLS'"),
    ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "no security protocol is defined for listener"),
    ({"controller.quorum.bootstrap.servers": "nowhere"}, "should be in the form host:port"),
    ({"controller.quorum.bootstrap.servers": ""}, "either controller.quorum.bootstrap.servers must contain"),
    ({"controller.quorum.voters": "1:h:9093"}, "should be in the form {id}@{host}:{port}"),
    ({"controller.quorum.voters": "2@h:9093"}, "node.id=1 must be one of controller.quorum.voters"),
    ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
    ({"log.flush.interval.ms": "-1"}, "log.flush.interval.ms must be greater than or equal to 0"),
    ({"log.cleaner.min.cleanable.ratio": "NaN"}, "Not a number of type DOUBLE"),
    ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
    ({"log.cleaner.dedupe.buffer.size": "1048576"}, "must be at least 1MB per cleaner thread"),
    ({"delete.topic.enable": "yes"}, "Expected value to be either true or false"),
    ({"num.partitions": "2147483648"}, "Not a number of type INT"),
    ({"num.partitions": "9" * 5000}, "Not a number of type INT"),
    ({"log.cleanup.policy": "delete,"}, "Configuration 'log.cleanup.policy' values must not be empty."),
    ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited"),
    ({"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"}, "conflict topic config"),
    ({"broker.session.timeout.ms": "3999"}, "at most half of broker.session.timeout.ms"),
    ({"broker.heartbeat.interval.ms": "0"}, "must be positive"),
    ({"controller.quorum.election.timeout.ms": "0"}, "controller.quorum.election.timeout.ms=0 must be positive"),
    ({"controller.quorum.fetch.timeout.ms": "0"}, "controller.quorum.fetch.timeout.ms=0 must be positive"),
    ({"controller.quorum.request.timeout.ms": "0"}, "controller.quorum.request.timeout.ms=0 must be positive"),
    ({"controller.quorum.retry.backoff.ms": "0"}, "controller.quorum.retry.backoff.ms=0 must be positive"),
    ({"queued.max.request.bytes": "1000"}, "must be larger or equal to socket.request.max.bytes"),
    ({"max.connections.per.ip": "0"}, "can be zero only if max.connections.per.ip.overrides is set"),
    ({"max.connections.per.ip.overrides": "h=3"}, "should be in the form host:count"),
    (
        {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
        "Only one of inter.broker.listener.name and security.inter.broker.protocol",
    ),
    ({"controller.listener.names": "CONTROLLER,PLAINTEXT"}, "there must be at least one broker listener"),
    ({"replica.socket.timeout.ms": "100"}, "replica.socket.timeout.ms must be at least"),
    ({"replica.lag.time.max.ms": "100"}, "replica.lag.time.max.ms must be at least"),
    ({"default.replication.factor": "0"}, "default.replication.factor=0 must be at least 1"),
]


@pytest.mark.parametrize(("changes", "problem"), REFUSED)
def test_a_setting_that_cannot_work_is_refused_at_start_by_name(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        NodeConfig.parse(COMBINED | changes)
    assert problem in str(refusal.value)


@pytest.mark.parametrize("name", ["node.id", "process.roles", "controller.listener.names"])
def test_a_setting_without_a_default_must_be_given(name: str) -> None:
    with pytest.raises(ConfigError, match=f'Missing required configuration "{name}"'):
        NodeConfig.parse(without(COMBINED, name))


def test_a_mere_broker_may_neither_vote_nor_bind_the_controllers_listener() -> None:
    with pytest.raises(ConfigError, match="must not be one of controller.quorum.voters"):
        NodeConfig.parse(BROKER | {"node.id": "1"})
    with pytest.raises(ConfigError, match="must not appear in listeners when process.roles=broker"):
        NodeConfig.parse(BROKER | {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"})
    with pytest.raises(ConfigError, match="controller.listener.names: CONTROLLER is not in listener.security"):
        NodeConfig.parse(BROKER | {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"})
    with pytest.raises(ConfigError, match="auto.join.enable needs the controller role"):
        NodeConfig.parse(BROKER | {"controller.quorum.auto.join.enable": "true"})


def test_a_mere_controller_binds_only_controller_listeners() -> None:
    controller = COMBINED | {"process.roles": "controller", "listeners": "CONTROLLER://:9093"}
    assert not NodeConfig.parse(controller).is_broker
    with pytest.raises(ConfigError, match="must only contain those of controller.listener.names"):
        NodeConfig.parse(controller | {"listeners": "CONTROLLER://:9093,PLAINTEXT://:9092"})


def test_retention_in_several_units_the_finest_counts() -> None:
    def retention(**given: str) -> int:
        properties = {f"log.retention.{unit}": value for unit, value in given.items()}
        return LogConfig.resolve(NodeConfig.parse(COMBINED | properties), {}).retention_ms

    assert retention() == 168 * 3_600_000
    assert retention(hours="2") == 7_200_000
    assert retention(hours="2", minutes="3") == 180_000
    assert retention(hours="2", minutes="3", ms="4") == 4
    assert retention(hours="-7") == -1


def test_a_dynamic_value_drives_out_every_synonym_below_it() -> None:
    node = NodeConfig.parse(COMBINED | {"log.retention.hours": "2", "log.retention.minutes": "3"})
    changed = node.with_dynamic({}, {"log.retention.ms": "99"})
    assert LogConfig.resolve(changed, {}).retention_ms == 99
    assert changed.get(LOG_RETENTION_HOURS) == 168
    assert LogConfig.resolve(changed.with_dynamic({}), {}).retention_ms == 180_000


def test_a_brokers_own_change_wins_over_the_clusters() -> None:
    node = NodeConfig.parse(
        COMBINED,
        dynamic={"message.max.bytes": "5"},
        dynamic_default={"message.max.bytes": "6", "log.retention.ms": "7"},
    )
    assert node.get(MESSAGE_MAX_BYTES) == 5
    assert node.get(LOG_RETENTION_MS) == 7


def test_a_stored_change_that_cannot_be_used_is_left_out_and_named() -> None:
    node = NodeConfig.parse(COMBINED, dynamic={"message.max.bytes": "five", "node.id": "7", "log.retention.ms": "8"})
    assert node.get(LOG_RETENTION_MS) == 8
    assert node.get(MESSAGE_MAX_BYTES) == 1048588
    assert node.ignored == (
        "Invalid value five for configuration message.max.bytes: Not a number of type INT",
        "node.id cannot be updated dynamically",
    )
    assert node.get(BROKER_SESSION_TIMEOUT_MS) == 9000


def test_changes_while_running_are_checked_as_kafka_checks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    validate_broker_configs({"log.retention.ms": "1000", "custom.key": "any"}, per_broker=False)
    with pytest.raises(ConfigError, match=r"Cannot update these configs dynamically: \[log.dirs, node.id\]"):
        validate_broker_configs({"node.id": "3", "log.dirs": "/x"}, per_broker=True)
    with pytest.raises(ConfigError, match=r"dynamically: \[listener.security.protocol.map, listeners\]"):
        validate_broker_configs({"listeners": "A://:1", "listener.security.protocol.map": "A:SSL"}, per_broker=True)
    with pytest.raises(ConfigError, match="Not a number of type LONG"):
        validate_broker_configs({"log.retention.ms": "x"}, per_broker=True)
    monkeypatch.setitem(SETTINGS, "own.key", Setting("own.key", INT, 0, "One broker's.", update=Update.PER_BROKER))
    validate_broker_configs({"own.key": "1"}, per_broker=True)
    with pytest.raises(ConfigError, match=r"at default cluster level, broker id must be specified: \[own.key\]"):
        validate_broker_configs({"own.key": "1"}, per_broker=False)
    with pytest.raises(ConfigError, match="replication.quota.window.num"):
        validate_broker_configs({"replication.quota.window.num": "1"}, per_broker=True)


def test_a_controller_alone_knows_the_listener_between_brokers_only_where_it_is_set() -> None:
    alone = {"process.roles": "controller", "listeners": "CONTROLLER://:9093"}
    assert NodeConfig.parse(COMBINED).inter_broker_listener_of_all == "PLAINTEXT"
    assert NodeConfig.parse(COMBINED | alone).inter_broker_listener_of_all is None
    parsed = NodeConfig.parse(COMBINED | alone | {"inter.broker.listener.name": "internal"})
    assert parsed.inter_broker_listener_of_all == "INTERNAL"


CLEANERS = {"log.cleaner.threads": "2"}
"""Of which `log.cleaner.dedupe.buffer.size` must have a megabyte each."""
UNSUITABLE = {"log.cleaner.dedupe.buffer.size": "1500000"}


def calls_of(adopt: Callable[[], NodeConfig]) -> tuple[int, NodeConfig]:
    """How many calls it takes, which is the same on every machine."""
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        adopted = adopt()
    finally:
        sys.setprofile(before)
    return calls, adopted


def test_one_setting_that_does_not_suit_costs_little_however_many_names_there_are() -> None:
    node = NodeConfig.parse(BROKER | CLEANERS)
    few = {"min.insync.replicas": "2", "message.max.bytes": "2000000"}
    many = few | {f"not.a.setting.{number}": "x" for number in range(3000)}
    suiting, _ = calls_of(lambda: node.adopting({}, many))
    labour, adopted = calls_of(lambda: node.adopting({}, many | UNSUITABLE))
    assert labour < 10 * suiting
    assert adopted.get(MIN_INSYNC_REPLICAS) == 2
    assert adopted.dynamic_default == many
    labour, again = calls_of(lambda: adopted.adopting({}, many | UNSUITABLE | {"num.network.threads": "4"}))
    assert labour < 10 * suiting
    assert again.dynamic_default == many | {"num.network.threads": "4"}


def test_settings_that_do_not_suit_are_left_out_one_by_one() -> None:
    node = NodeConfig.parse(BROKER | CLEANERS)
    suiting = {"min.insync.replicas": "2", "message.max.bytes": "2000000", "log.retention.ms": "1000"}
    adopted = node.adopting({"log.segment.bytes": "2000000"}, UNSUITABLE | suiting)
    assert adopted.dynamic_default == suiting
    assert adopted.dynamic == {"log.segment.bytes": "2000000"}
    assert "log.cleaner.dedupe.buffer.size" not in adopted.dynamic_default
    assert adopted.ignored
    changed = adopted.adopting({}, UNSUITABLE | {"min.insync.replicas": "3"})
    assert (changed.dynamic, changed.dynamic_default) == ({}, {"min.insync.replicas": "3"})


def test_a_replica_selector_that_is_not_built_in_is_refused() -> None:
    for known in (RACK_AWARE_SELECTOR, LEADER_SELECTOR):
        node = NodeConfig.parse(COMBINED | {"replica.selector.class": known})
        assert node.get(REPLICA_SELECTOR_CLASS) == known
    with pytest.raises(ConfigError, match="replica.selector.class=my.Selector cannot be loaded"):
        NodeConfig.parse(COMBINED | {"replica.selector.class": "my.Selector"})
