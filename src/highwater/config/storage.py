"""Settings of the logs on disk. Most have a topic-level name, too: see `highwater.config.topic`."""

from __future__ import annotations

from highwater.config.kinds import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    RangeOr,
    at_least,
    between,
    list_of,
    one_of,
)
from highwater.config.setting import Setting, Update

_CLUSTER_WIDE = Update.CLUSTER_WIDE

LOG_DIR = Setting(
    "log.dir",
    LIST,
    ("/tmp/kafka-logs",),
    "The data directory, where log.dirs is not set.",
    list_of(may_be_empty=False),
)
LOG_DIRS: Setting[tuple[str, ...] | None] = Setting(
    "log.dirs", LIST, None, "The data directories, comma-separated.", list_of(may_be_empty=False)
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = Setting(
    "num.recovery.threads.per.data.dir",
    INT,
    2,
    "Logs of one directory that are recovered at a time.",
    at_least(1),
    _CLUSTER_WIDE,
)

LOG_SEGMENT_BYTES = Setting(
    "log.segment.bytes", INT, 1 << 30, "A segment that would outgrow this is rolled.", at_least(1 << 20), _CLUSTER_WIDE
)
LOG_ROLL_MS: Setting[int | None] = Setting(
    "log.roll.ms", LONG, None, "A segment older than this is rolled.", update=_CLUSTER_WIDE
)
LOG_ROLL_HOURS = Setting("log.roll.hours", INT, 168, "log.roll.ms in hours.", at_least(1))
LOG_ROLL_JITTER_MS: Setting[int | None] = Setting(
    "log.roll.jitter.ms", LONG, None, "The most by which rolling is brought forward at random.", update=_CLUSTER_WIDE
)
LOG_ROLL_JITTER_HOURS = Setting("log.roll.jitter.hours", INT, 0, "log.roll.jitter.ms in hours.", at_least(0))
LOG_INDEX_SIZE_MAX_BYTES = Setting(
    "log.index.size.max.bytes",
    INT,
    10485760,
    "The largest index; a full one rolls its segment.",
    at_least(4),
    _CLUSTER_WIDE,
)
LOG_INDEX_INTERVAL_BYTES = Setting(
    "log.index.interval.bytes", INT, 4096, "Bytes of log between two index entries.", at_least(0), _CLUSTER_WIDE
)
LOG_PREALLOCATE = Setting(
    "log.preallocate",
    BOOLEAN,
    False,
    "Whether a new segment's space is reserved at once.",
    update=_CLUSTER_WIDE,
    inert="files grow as they are written",
)

LOG_RETENTION_MS: Setting[int | None] = Setting(
    "log.retention.ms", LONG, None, "How long records are kept; -1 is for ever.", update=_CLUSTER_WIDE
)
LOG_RETENTION_MINUTES: Setting[int | None] = Setting(
    "log.retention.minutes", INT, None, "log.retention.ms in minutes, where that is not set."
)
LOG_RETENTION_HOURS = Setting(
    "log.retention.hours", INT, 168, "log.retention.ms in hours, where neither it nor the minutes are set."
)
LOG_RETENTION_BYTES = Setting(
    "log.retention.bytes", LONG, -1, "How large one partition's log may grow; -1 is no bound.", update=_CLUSTER_WIDE
)
LOG_RETENTION_CHECK_INTERVAL_MS = Setting(
    "log.retention.check.interval.ms", LONG, 300_000, "How often old segments are looked for.", at_least(1)
)
LOG_INITIAL_TASK_DELAY_MS = Setting(
    "log.initial.task.delay.ms", LONG, 30_000, "When the first of those rounds begins.", at_least(0), internal=True
)
LOG_SEGMENT_DELETE_DELAY_MS = Setting(
    "log.segment.delete.delay.ms", LONG, 60_000, "How long a deleted file stays on disk.", at_least(0), _CLUSTER_WIDE
)
LOG_CLEANUP_POLICY = Setting(
    "log.cleanup.policy",
    LIST,
    ("delete",),
    "What becomes of old records: delete, compact, both, or neither.",
    list_of("compact", "delete"),
    _CLUSTER_WIDE,
)

LOG_FLUSH_INTERVAL_MESSAGES = Setting(
    "log.flush.interval.messages", LONG, LONG_MAX, "Records after which a log is synced.", at_least(1), _CLUSTER_WIDE
)
LOG_FLUSH_INTERVAL_MS: Setting[int | None] = Setting(
    "log.flush.interval.ms", LONG, None, "How long a record may stay unsynced.", update=_CLUSTER_WIDE
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = Setting(
    "log.flush.scheduler.interval.ms", LONG, LONG_MAX, "How often logs are looked at for log.flush.interval.ms."
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = Setting(
    "log.flush.offset.checkpoint.interval.ms", INT, 60_000, "How often recovery points are written.", at_least(0)
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = Setting(
    "log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, "How often log starts are written.", at_least(0)
)

LOG_MESSAGE_TIMESTAMP_TYPE = Setting(
    "log.message.timestamp.type",
    STRING,
    "CreateTime",
    "Whose time a record carries: the producer's or the broker's.",
    one_of("CreateTime", "LogAppendTime"),
    _CLUSTER_WIDE,
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = Setting(
    "log.message.timestamp.before.max.ms",
    LONG,
    LONG_MAX,
    "How far a record's own time may lie in the past.",
    at_least(0),
    _CLUSTER_WIDE,
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = Setting(
    "log.message.timestamp.after.max.ms",
    LONG,
    3_600_000,
    "How far a record's own time may lie in the future.",
    at_least(0),
    _CLUSTER_WIDE,
)
COMPRESSION_TYPE = Setting(
    "compression.type",
    STRING,
    "producer",
    "How batches are stored; producer keeps them as they came.",
    one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    _CLUSTER_WIDE,
)
COMPRESSION_GZIP_LEVEL = Setting(
    "compression.gzip.level", INT, -1, "The level for compression.type=gzip.", RangeOr(1, 9, -1), _CLUSTER_WIDE
)
COMPRESSION_LZ4_LEVEL = Setting(
    "compression.lz4.level", INT, 9, "The level for compression.type=lz4.", between(1, 17), _CLUSTER_WIDE
)
COMPRESSION_ZSTD_LEVEL = Setting(
    "compression.zstd.level", INT, 3, "The level for compression.type=zstd.", between(-131072, 22), _CLUSTER_WIDE
)

_CLEANER_PIECES = "the cleaner reads and writes a megabyte at a time"

LOG_CLEANER_ENABLE = Setting("log.cleaner.enable", BOOLEAN, True, "Whether the cleaner runs (Kafka has deprecated it).")
LOG_CLEANER_THREADS = Setting("log.cleaner.threads", INT, 1, "Logs cleaned at a time.", at_least(0), _CLUSTER_WIDE)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = Setting(
    "log.cleaner.dedupe.buffer.size",
    LONG,
    128 << 20,
    "Memory for the cleaner's key map.",
    update=_CLUSTER_WIDE,
)
LOG_CLEANER_IO_BUFFER_SIZE = Setting(
    "log.cleaner.io.buffer.size",
    INT,
    524288,
    "Memory for the cleaner's reads and writes.",
    at_least(0),
    _CLUSTER_WIDE,
    inert=_CLEANER_PIECES,
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = Setting(
    "log.cleaner.io.buffer.load.factor",
    DOUBLE,
    0.9,
    "How full the cleaner's key map may get.",
    update=_CLUSTER_WIDE,
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = Setting(
    "log.cleaner.io.max.bytes.per.second",
    DOUBLE,
    1.7976931348623157e308,
    "The cleaner's share of the disk.",
    update=_CLUSTER_WIDE,
)
LOG_CLEANER_BACKOFF_MS = Setting(
    "log.cleaner.backoff.ms",
    LONG,
    15_000,
    "How long the cleaner rests when nothing is dirty.",
    at_least(0),
    _CLUSTER_WIDE,
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = Setting(
    "log.cleaner.min.cleanable.ratio",
    DOUBLE,
    0.5,
    "The dirty share of a log from which it is cleaned.",
    between(0, 1),
    _CLUSTER_WIDE,
)
LOG_CLEANER_DELETE_RETENTION_MS = Setting(
    "log.cleaner.delete.retention.ms",
    LONG,
    86_400_000,
    "How long a deletion marker stays readable.",
    at_least(0),
    _CLUSTER_WIDE,
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = Setting(
    "log.cleaner.min.compaction.lag.ms",
    LONG,
    0,
    "How long a record stays uncompacted at least.",
    at_least(0),
    _CLUSTER_WIDE,
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = Setting(
    "log.cleaner.max.compaction.lag.ms",
    LONG,
    LONG_MAX,
    "How long a record stays uncompacted at most.",
    at_least(1),
    _CLUSTER_WIDE,
)

LOG_DIR_FAILURE_TIMEOUT_MS = Setting(
    "log.dir.failure.timeout.ms",
    LONG,
    30_000,
    "How long a failed directory may stay unreported before the broker stops.",
    at_least(1),
    inert="a failed log goes offline at once, by itself; directories are not reported",
)

PRODUCER_ID_EXPIRATION_MS = Setting(
    "producer.id.expiration.ms",
    INT,
    86_400_000,
    "How long an idle producer's sequence is remembered.",
    at_least(1),
    _CLUSTER_WIDE,
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = Setting(
    "producer.id.expiration.check.interval.ms",
    INT,
    600_000,
    "How often idle producers are looked for.",
    at_least(1),
    internal=True,
)
