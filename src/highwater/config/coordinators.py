"""Settings of groups. Settings of transactions are accepted, because ordinary server.properties files have them."""

from __future__ import annotations

from highwater.config.kinds import BOOLEAN, INT, LONG, SHORT, at_least
from highwater.config.setting import Setting, Update

_NO_TRANSACTIONS = "transactions are not built yet"
_NO_SHARE_GROUPS = "share groups are not supported"


def _groups(name: str, default: int, doc: str, low: int | None = 1) -> Setting[int]:
    return Setting(name, INT, default, doc, None if low is None else at_least(low))


def _transactions(name: str, default: int, doc: str) -> Setting[int]:
    return Setting(name, INT, default, doc, at_least(1), inert=_NO_TRANSACTIONS)


OFFSETS_TOPIC_NUM_PARTITIONS = _groups("offsets.topic.num.partitions", 50, "Partitions of the offsets topic.")
OFFSETS_TOPIC_REPLICATION_FACTOR = Setting(
    "offsets.topic.replication.factor", SHORT, 3, "Replicas of the offsets topic.", at_least(1)
)
OFFSETS_TOPIC_SEGMENT_BYTES = _groups("offsets.topic.segment.bytes", 100 << 20, "Segment size of the offsets topic.")
OFFSETS_TOPIC_COMPRESSION_CODEC = _groups(
    "offsets.topic.compression.codec", 0, "Compression of the offsets topic.", low=None
)
OFFSETS_LOAD_BUFFER_SIZE = Setting(
    "offsets.load.buffer.size",
    INT,
    5 << 20,
    "Read size when offsets are loaded.",
    at_least(1),
    inert="coordinators read a megabyte at a time",
)
OFFSETS_RETENTION_MINUTES = _groups("offsets.retention.minutes", 10080, "How long an unused offset is kept.")
OFFSETS_RETENTION_CHECK_INTERVAL_MS = Setting(
    "offsets.retention.check.interval.ms",
    LONG,
    600_000,
    "How often unused offsets are looked for.",
    at_least(1),
)
OFFSETS_COMMIT_TIMEOUT_MS = _groups("offsets.commit.timeout.ms", 5000, "How long a commit waits for replicas.")
OFFSET_METADATA_MAX_BYTES = _groups("offset.metadata.max.bytes", 4096, "The longest note with an offset.", low=None)
GROUP_MIN_SESSION_TIMEOUT_MS = _groups("group.min.session.timeout.ms", 6000, "The shortest session.", low=None)
GROUP_MAX_SESSION_TIMEOUT_MS = _groups("group.max.session.timeout.ms", 1_800_000, "The longest session.", low=None)
GROUP_INITIAL_REBALANCE_DELAY_MS = _groups(
    "group.initial.rebalance.delay.ms", 3000, "How long a new group waits for more members.", low=None
)
GROUP_MAX_SIZE = _groups("group.max.size", 2**31 - 1, "Members of a group at most.")

TRANSACTION_STATE_LOG_NUM_PARTITIONS = _transactions(
    "transaction.state.log.num.partitions", 50, "Partitions of the transactions topic."
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = Setting(
    "transaction.state.log.replication.factor",
    SHORT,
    3,
    "Replicas of the transactions topic.",
    at_least(1),
    inert=_NO_TRANSACTIONS,
)
TRANSACTION_STATE_LOG_MIN_ISR = _transactions(
    "transaction.state.log.min.isr", 2, "min.insync.replicas of the transactions topic."
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = _transactions(
    "transaction.state.log.segment.bytes", 100 << 20, "Segment size of the transactions topic."
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = _transactions(
    "transaction.state.log.load.buffer.size", 5 << 20, "Read size when transactions are loaded."
)
TRANSACTION_MAX_TIMEOUT_MS = _transactions("transaction.max.timeout.ms", 900_000, "The longest transaction.")
TRANSACTIONAL_ID_EXPIRATION_MS = _transactions(
    "transactional.id.expiration.ms", 604_800_000, "How long an unused transactional id is kept."
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = _transactions(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, "How often overdue ones are looked for."
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = _transactions(
    "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, "How often unused ids are looked for."
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = Setting(
    "transaction.partition.verification.enable",
    BOOLEAN,
    True,
    "Whether a partition is checked to be in the transaction.",
    update=Update.CLUSTER_WIDE,
    inert=_NO_TRANSACTIONS,
)

SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR = Setting(
    "share.coordinator.state.topic.replication.factor",
    SHORT,
    3,
    "Replicas of the share-group state topic.",
    at_least(1),
    inert=_NO_SHARE_GROUPS,
)
SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR = Setting(
    "share.coordinator.state.topic.min.isr",
    SHORT,
    2,
    "min.insync.replicas of the share-group state topic.",
    at_least(1),
    inert=_NO_SHARE_GROUPS,
)
