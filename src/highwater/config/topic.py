"""Settings of a topic. Each falls back on settings of the node, and `LogConfig` holds the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

from highwater.config import replication, server, storage
from highwater.config.kinds import INT, LIST, LONG, Allowed, ConfigError, Kind, ReplicasOf, T, at_least
from highwater.config.setting import Setting, parse
from highwater.config.unsupported import is_unsupported_topic_setting

if TYPE_CHECKING:
    from highwater.config.node import NodeConfig

_FIELDS = {
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
}

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


class Fallback(NamedTuple):
    """A node setting that replaces a missing topic setting, and the factor between their units."""

    setting: Setting[Any]
    factor: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class TopicSetting(Generic[T]):
    name: str
    kind: Kind[T]
    fallbacks: tuple[Fallback, ...]
    """The first one that is set counts."""
    allowed: Allowed[T] | None = None
    internal: bool = False
    default: T | None = None
    """The value of topics that have none, if there is no setting of the node for it."""
    own_doc: str = ""

    @property
    def field(self) -> str:
        """The attribute of LogConfig."""
        return _FIELDS.get(self.name) or self.name.replace(".", "_")

    @property
    def doc(self) -> str:
        return self.fallbacks[0].setting.doc if self.fallbacks else self.own_doc

    def parse(self, text: str) -> T:
        """Raises ConfigError."""
        return parse(self.name, self.kind, self.allowed, text)

    def of(self, node: NodeConfig) -> Any:
        """The node's value, for topics that have none."""
        for setting, factor in self.fallbacks:
            value = node.get(setting)
            if value is not None:
                return value if factor == 1 else value * factor
        return self.default


def _same(name: str, setting: Setting[T]) -> TopicSetting[T]:
    return TopicSetting(name, setting.kind, (Fallback(setting),), setting.allowed)


def _millis(name: str, low: int, *fallbacks: Fallback) -> TopicSetting[int]:
    return TopicSetting(name, LONG, fallbacks, at_least(low))


def _replicas(name: str, doc: str) -> TopicSetting[tuple[str, ...]]:
    return TopicSetting(name, LIST, (), ReplicasOf(), default=(), own_doc=doc)


SEGMENT_BYTES = _same("segment.bytes", storage.LOG_SEGMENT_BYTES)
SEGMENT_MS = _millis("segment.ms", 1, Fallback(storage.LOG_ROLL_MS), Fallback(storage.LOG_ROLL_HOURS, HOUR_MS))
SEGMENT_JITTER_MS = _millis(
    "segment.jitter.ms", 0, Fallback(storage.LOG_ROLL_JITTER_MS), Fallback(storage.LOG_ROLL_JITTER_HOURS, HOUR_MS)
)
SEGMENT_INDEX_BYTES = _same("segment.index.bytes", storage.LOG_INDEX_SIZE_MAX_BYTES)
INDEX_INTERVAL_BYTES = _same("index.interval.bytes", storage.LOG_INDEX_INTERVAL_BYTES)
FLUSH_MESSAGES = _same("flush.messages", storage.LOG_FLUSH_INTERVAL_MESSAGES)
FLUSH_MS = _millis(
    "flush.ms", 0, Fallback(storage.LOG_FLUSH_INTERVAL_MS), Fallback(storage.LOG_FLUSH_SCHEDULER_INTERVAL_MS)
)
RETENTION_BYTES = _same("retention.bytes", storage.LOG_RETENTION_BYTES)
RETENTION_MS = _millis(
    "retention.ms",
    -1,
    Fallback(storage.LOG_RETENTION_MS),
    Fallback(storage.LOG_RETENTION_MINUTES, MINUTE_MS),
    Fallback(storage.LOG_RETENTION_HOURS, HOUR_MS),
)
MAX_MESSAGE_BYTES = _same("max.message.bytes", server.MESSAGE_MAX_BYTES)
FILE_DELETE_DELAY_MS = _same("file.delete.delay.ms", storage.LOG_SEGMENT_DELETE_DELAY_MS)
CLEANUP_POLICY = _same("cleanup.policy", storage.LOG_CLEANUP_POLICY)
DELETE_RETENTION_MS = _same("delete.retention.ms", storage.LOG_CLEANER_DELETE_RETENTION_MS)
MIN_COMPACTION_LAG_MS = _same("min.compaction.lag.ms", storage.LOG_CLEANER_MIN_COMPACTION_LAG_MS)
MAX_COMPACTION_LAG_MS = _same("max.compaction.lag.ms", storage.LOG_CLEANER_MAX_COMPACTION_LAG_MS)
MIN_CLEANABLE_DIRTY_RATIO = _same("min.cleanable.dirty.ratio", storage.LOG_CLEANER_MIN_CLEANABLE_RATIO)
TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = _same(
    "unclean.leader.election.enable", replication.UNCLEAN_LEADER_ELECTION_ENABLE
)
TOPIC_MIN_INSYNC_REPLICAS = _same("min.insync.replicas", replication.MIN_INSYNC_REPLICAS)
TOPIC_COMPRESSION_TYPE = _same("compression.type", storage.COMPRESSION_TYPE)
TOPIC_COMPRESSION_GZIP_LEVEL = _same("compression.gzip.level", storage.COMPRESSION_GZIP_LEVEL)
TOPIC_COMPRESSION_LZ4_LEVEL = _same("compression.lz4.level", storage.COMPRESSION_LZ4_LEVEL)
TOPIC_COMPRESSION_ZSTD_LEVEL = _same("compression.zstd.level", storage.COMPRESSION_ZSTD_LEVEL)
PREALLOCATE = _same("preallocate", storage.LOG_PREALLOCATE)
MESSAGE_TIMESTAMP_TYPE = _same("message.timestamp.type", storage.LOG_MESSAGE_TIMESTAMP_TYPE)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = _same("message.timestamp.before.max.ms", storage.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = _same("message.timestamp.after.max.ms", storage.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS)
LEADER_REPLICATION_THROTTLED_REPLICAS = _replicas(
    "leader.replication.throttled.replicas",
    "The replicas, as partition:broker or * for all, to which leader.replication.throttled.rate applies as leaders.",
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = _replicas(
    "follower.replication.throttled.replicas",
    "The replicas, as partition:broker or * for all, to which follower.replication.throttled.rate applies.",
)
INTERNAL_SEGMENT_BYTES: TopicSetting[int] = TopicSetting("internal.segment.bytes", INT, (), internal=True)

TOPIC_SETTINGS: dict[str, TopicSetting[Any]] = {
    setting.name: setting for setting in list(globals().values()) if isinstance(setting, TopicSetting)
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """All settings of one topic, resolved."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    flush_messages: int
    flush_ms: int
    retention_bytes: int
    retention_ms: int
    max_message_bytes: int
    file_delete_delay_ms: int
    cleanup_policy: tuple[str, ...]
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    unclean_leader_election_enable: bool
    min_insync_replicas: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    preallocate: bool
    message_timestamp_type: str
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    leader_replication_throttled_replicas: frozenset[str] = frozenset()
    follower_replication_throttled_replicas: frozenset[str] = frozenset()
    """There may be thousands, and each partition is looked up."""

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is rolled. Only closed segments are compacted, so max.compaction.lag.ms limits it,
        too."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @classmethod
    def resolve(cls, node: NodeConfig, overrides: Mapping[str, str]) -> Self:
        """The topic's own values, or else the node's.

        Unknown names are skipped. A value that cannot be parsed raises ConfigError.
        """
        values: dict[str, Any] = {}
        for name, setting in TOPIC_SETTINGS.items():
            text = overrides.get(name)
            values[setting.field] = setting.of(node) if text is None else setting.parse(text)
        internal = values.pop(INTERNAL_SEGMENT_BYTES.field)
        if internal is not None:
            values["segment_bytes"] = internal
        # A negative value means for ever. Only settings of the node can be below -1.
        values["retention_ms"] = max(values["retention_ms"], -1)
        for listed in (LEADER_REPLICATION_THROTTLED_REPLICAS.field, FOLLOWER_REPLICATION_THROTTLED_REPLICAS.field):
            values[listed] = frozenset(values[listed])
        return cls(**values)


def validate_topic_config(name: str, value: str) -> None:
    """Checks one override by itself. Raises ConfigError with Kafka's message."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is not None:
        setting.parse(value)
    elif is_unsupported_topic_setting(name):
        raise ConfigError(f"Invalid value {value} for configuration {name}: Not supported by Highwater")
    else:
        raise ConfigError(f"Unknown topic config name: {name}")


def validate_topic_configs(node: NodeConfig, overrides: Mapping[str, str]) -> None:
    """Checks all overrides of one topic, each by itself and together. Raises ConfigError with Kafka's message."""
    for name, value in overrides.items():
        validate_topic_config(name, value)
    log = LogConfig.resolve(node, overrides)
    if log.min_compaction_lag_ms > log.max_compaction_lag_ms:
        raise ConfigError(
            f"conflict topic config setting {MIN_COMPACTION_LAG_MS.name} ({log.min_compaction_lag_ms})"
            f" > {MAX_COMPACTION_LAG_MS.name} ({log.max_compaction_lag_ms})"
        )
