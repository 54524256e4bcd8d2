"""The configuration of one node: static properties, dynamic changes, and Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from highwater.config import coordinators, quorum, replication, server, storage
from highwater.config.kinds import ConfigError, T
from highwater.config.listeners import (
    Listener,
    Voter,
    parse_connection_counts,
    parse_endpoint,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from highwater.config.relations import check
from highwater.config.setting import REQUIRED, Setting, Update
from highwater.config.unsupported import is_unsupported
from highwater.model import Endpoint, NodeId

SETTINGS: dict[str, Setting[Any]] = {
    setting.name: setting
    for module in (server, storage, replication, quorum, coordinators)
    for setting in vars(module).values()
    if isinstance(setting, Setting)
}

SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Names of the same setting in several units. The first one that is set counts."""

_NOTHING: Mapping[str, str] = {}
_Named = tuple[str, str, bool]
"""A setting, its value, and whether it applies to the whole cluster."""


def synonyms(name: str) -> tuple[str, ...]:
    """The names under which a node setting may be given, by priority."""
    if name == storage.LOG_FLUSH_INTERVAL_MS.name:
        # This works in one direction only: the scheduler's interval replaces a missing flush interval, but not the
        # reverse.
        return (name, storage.LOG_FLUSH_SCHEDULER_INTERVAL_MS.name)
    return next((group for group in SYNONYMS if name in group), (name,))


class NodeConfig:
    """Immutable. `with_dynamic` returns a changed copy."""

    __slots__ = ("_values", "asked", "dynamic", "dynamic_default", "ignored", "static", "unknown")

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic: Mapping[str, str],
        dynamic_default: Mapping[str, str],
        ignored: tuple[str, ...] = (),
        asked: tuple[Mapping[str, str], Mapping[str, str]] = (_NOTHING, _NOTHING),
    ) -> None:
        self.static = dict(static)
        self.dynamic = dict(dynamic)
        self.dynamic_default = dict(dynamic_default)
        self.unknown: tuple[str, ...] = tuple(sorted(name for name in static if name not in SETTINGS))
        """Static keys that have no meaning here or in Kafka. They deserve a warning, as in Kafka."""
        self.ignored = ignored
        """The reasons why some dynamic values are not in force."""
        self.asked = (dict(asked[0]), dict(asked[1]))
        """The values of this broker and of the cluster that `adopting` was given. Those in `dynamic` and
        `dynamic_default` are in force."""
        merged = _merge(self.static, self.dynamic_default, self.dynamic)
        self._values: dict[str, Any] = {name: _value(setting, merged.get(name)) for name, setting in SETTINGS.items()}

    @classmethod
    def parse(
        cls,
        properties: Mapping[str, str],
        *,
        dynamic: Mapping[str, str] = _NOTHING,
        dynamic_default: Mapping[str, str] = _NOTHING,
    ) -> NodeConfig:
        """From the content of a server.properties file. `dynamic` are the changes of this broker, and `dynamic_default`
        those of the cluster. Raises ConfigError if a value, or a combination of values, cannot be used."""
        static = dict(properties)
        for one, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if one in static and other not in static:
                static[other] = static[one]
        for name in static:
            if name not in SETTINGS and is_unsupported(name):
                raise ConfigError(f"Invalid value {static[name]} for configuration {name}: Not supported by Highwater")
        base = cls(static, {}, {})
        check(base)
        return base.with_dynamic(dynamic, dynamic_default) if dynamic or dynamic_default else base

    def with_dynamic(self, broker: Mapping[str, str], default: Mapping[str, str] = _NOTHING) -> NodeConfig:
        """The same node with other dynamic values. A value that cannot be used by itself is left out and named in
        `ignored`, as in Kafka. Raises ConfigError if the remaining values contradict each other."""
        ignored: list[str] = []
        next_config = NodeConfig(self.static, _usable(broker, ignored), _usable(default, ignored), tuple(ignored))
        check(next_config)
        return next_config

    def adopting(self, broker: Mapping[str, str], default: Mapping[str, str]) -> NodeConfig:
        """The same node with the dynamic values of an image, as far as it can use them; itself if it has them already.

        Values that contradict others stay as they were, and `ignored` has the reason. Kafka, too, continues with the
        last usable values. Dynamic values are not checked against every node's static settings before they are written,
        so this must not fail.
        """
        asked = (broker, default)
        if self.asked == asked:
            return self
        why: tuple[str, ...] = ()
        try:
            chosen = self.with_dynamic(broker, default)
        except ConfigError as problem:
            chosen, why = self._adopting_some(broker, default), (str(problem),)
        return NodeConfig(self.static, chosen.dynamic, chosen.dynamic_default, (*chosen.ignored, *why), asked)

    def _adopting_some(self, broker: Mapping[str, str], default: Mapping[str, str]) -> NodeConfig:
        """A value that this node cannot use must not keep other values out. All nodes have to agree on some of them,
        such as min.insync.replicas: a leader with another value than the controller would commit too early. Unknown
        names are taken together with all others. There may be thousands of them, so they are not tried one by one."""
        ignored: list[str] = []
        own, own_unknown = _split(_usable(broker, ignored))
        shared, shared_unknown = _split(_usable(default, ignored))
        try:
            chosen = self.with_dynamic(
                {name: value for name, value in self.dynamic.items() if name in own},
                {name: value for name, value in self.dynamic_default.items() if name in shared},
            )
        except ConfigError:
            chosen = self.with_dynamic({}, {})
        left = [*((name, shared[name], True) for name in sorted(shared)), *((n, own[n], False) for n in sorted(own))]
        before = len(left) + 1
        while len(left) < before:  # some values can be used only after another one was taken
            before = len(left)
            chosen, left = chosen._with_those_that_suit(left)
        return NodeConfig(
            self.static, {**own_unknown, **chosen.dynamic}, {**shared_unknown, **chosen.dynamic_default}, tuple(ignored)
        )

    def _with_those_that_suit(self, named: list[_Named]) -> tuple[NodeConfig, list[_Named]]:
        """The node with the values that it can use, and the values that it cannot. It tries all at once, and then by
        halves: usually only one value cannot be used."""
        if not named:
            return self, []
        own = {name: value for name, value, is_shared in named if not is_shared}
        shared = {name: value for name, value, is_shared in named if is_shared}
        try:
            return self.with_dynamic({**self.dynamic, **own}, {**self.dynamic_default, **shared}), []
        except ConfigError:
            if len(named) == 1:
                return self, named
        half = len(named) // 2
        chosen, left = self._with_those_that_suit(named[:half])
        chosen, more = chosen._with_those_that_suit(named[half:])
        return chosen, left + more

    def get(self, setting: Setting[T]) -> T:
        return cast(T, self._values[setting.name])

    @property
    def node_id(self) -> NodeId:
        return NodeId(self.get(server.NODE_ID))

    @property
    def is_broker(self) -> bool:
        return "broker" in self.get(server.PROCESS_ROLES)

    @property
    def is_controller(self) -> bool:
        return "controller" in self.get(server.PROCESS_ROLES)

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return self.get(storage.LOG_DIRS) or self.get(storage.LOG_DIR)

    @property
    def metadata_log_dir(self) -> str:
        return self.get(quorum.METADATA_LOG_DIR) or self.log_dirs[0]

    @property
    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener. Without a map, controller listeners are PLAINTEXT."""
        protocols = parse_protocol_map(
            server.LISTENER_SECURITY_PROTOCOL_MAP.name, self.get(server.LISTENER_SECURITY_PROTOCOL_MAP)
        )
        if server.LISTENER_SECURITY_PROTOCOL_MAP.name not in self.static:
            for name in self.controller_listener_names:
                protocols.setdefault(name, "PLAINTEXT")
        return protocols

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.get(server.CONTROLLER_LISTENER_NAMES))

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """All listeners that this node binds, for brokers and for controllers."""
        return parse_listeners(server.LISTENERS.name, self.get(server.LISTENERS), self.protocols)

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        names = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name not in names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        names = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name in names)

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The broker listeners that clients get. An empty host means the node's own name, and port 0 the bound port."""
        advertised = self.get(server.ADVERTISED_LISTENERS)
        if advertised is None:
            return self.broker_listeners
        names = self.controller_listener_names
        parsed = parse_listeners(server.ADVERTISED_LISTENERS.name, advertised, self.protocols)
        return tuple(listener for listener in parsed if listener.name not in names)

    @property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """The controller listeners that other nodes get, advertised or bound."""
        advertised = self.get(server.ADVERTISED_LISTENERS) or ()
        parsed = parse_listeners(server.ADVERTISED_LISTENERS.name, advertised, self.protocols)
        by_name = {listener.name: listener for listener in (*self.controller_listeners, *parsed)}
        return tuple(by_name[name] for name in self.controller_listener_names if name in by_name)

    @property
    def inter_broker_listener(self) -> str:
        name = self.get(server.INTER_BROKER_LISTENER_NAME)
        return (name or self.get(server.SECURITY_INTER_BROKER_PROTOCOL)).upper()

    @property
    def inter_broker_listener_of_all(self) -> str | None:
        """The listener for connections to any broker, if this node knows it. Brokers agree on it, but the default of a
        controller that is not a broker says nothing about theirs."""
        named = {server.INTER_BROKER_LISTENER_NAME.name, server.SECURITY_INTER_BROKER_PROTOCOL.name}
        return self.inter_broker_listener if self.is_broker or named & self.static.keys() else None

    @property
    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        setting = server.MAX_CONNECTIONS_PER_IP_OVERRIDES
        return parse_connection_counts(setting.name, self.get(setting))

    @property
    def voters(self) -> tuple[Voter, ...]:
        """Empty if the voter set is in the metadata log."""
        return parse_voters(quorum.CONTROLLER_QUORUM_VOTERS.name, self.get(quorum.CONTROLLER_QUORUM_VOTERS))

    @property
    def bootstrap_controllers(self) -> tuple[Endpoint, ...]:
        setting = quorum.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS
        return tuple(parse_endpoint(setting.name, entry) for entry in self.get(setting))


def _merge(static: Mapping[str, str], *layers: Mapping[str, str]) -> dict[str, str]:
    """Each layer overrides the one before. A name removes its synonyms: otherwise a dynamic log.retention.hours would
    lose against log.retention.ms in the file."""
    merged = dict(static)
    for layer in layers:
        for name, text in layer.items():
            for synonym in synonyms(name):
                merged.pop(synonym, None)
            merged[name] = text
    return merged


def _value(setting: Setting[Any], text: str | None) -> Any:
    if text is not None:
        return setting.parse(text)
    if setting.default is REQUIRED:
        raise ConfigError(f'Missing required configuration "{setting.name}" which has no default value.')
    return setting.default


def _split(named: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Known settings, and unknown names."""
    known = {name: value for name, value in named.items() if name in SETTINGS}
    return known, {name: value for name, value in named.items() if name not in SETTINGS}


def _usable(changes: Mapping[str, str], ignored: list[str]) -> dict[str, str]:
    usable = {}
    for name, text in changes.items():
        setting = SETTINGS.get(name)
        try:
            if setting is not None:
                setting.parse(text)
        except ConfigError as error:
            ignored.append(str(error))
            continue
        if setting is None or setting.update is not Update.READ_ONLY:
            usable[name] = text
        else:
            ignored.append(f"{name} cannot be updated dynamically")
    return usable


def validate_broker_configs(changes: Mapping[str, str], *, per_broker: bool) -> None:
    """Checks dynamic changes of one broker or of the cluster's default. Raises ConfigError as Kafka does."""
    known = {name: SETTINGS[name] for name in changes if name in SETTINGS}
    fixed = [name for name, setting in known.items() if setting.update is Update.READ_ONLY]
    fixed += [name for name in changes if name not in known and is_unsupported(name)]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]")
    for name, setting in known.items():
        setting.parse(changes[name])
    lone = sorted(name for name, setting in known.items() if setting.update is Update.PER_BROKER)
    if lone and not per_broker:
        raise ConfigError(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(lone)}]"
        )
