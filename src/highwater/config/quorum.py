"""Settings of the controller quorum, of its metadata log and of broker liveness."""

from __future__ import annotations

from highwater.config.kinds import BOOLEAN, INT, LIST, LONG, STRING, at_least
from highwater.config.listeners import BootstrapServers, Voters
from highwater.config.setting import Setting

_FIXED_PIECES = "one answer holds up to 8 MiB of the metadata log, or 1 MiB of a snapshot"

CONTROLLER_QUORUM_VOTERS = Setting(
    "controller.quorum.voters",
    LIST,
    (),
    "The voters of a fixed quorum, as id@host:port, comma-separated.",
    Voters(),
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = Setting(
    "controller.quorum.bootstrap.servers",
    LIST,
    (),
    "Where controllers may be found, as host:port, when the voters are in the metadata log itself.",
    BootstrapServers(),
)
CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = Setting(
    "controller.quorum.election.timeout.ms", INT, 1000, "How long a candidate waits for votes.", at_least(0)
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = Setting(
    "controller.quorum.election.backoff.max.ms", INT, 1000, "The longest rest before the next candidacy.", at_least(0)
)
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = Setting(
    "controller.quorum.fetch.timeout.ms", INT, 2000, "How long a voter goes without its leader.", at_least(0)
)
CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = Setting(
    "controller.quorum.request.timeout.ms", INT, 2000, "How long a voter waits for an answer.", at_least(0)
)
CONTROLLER_QUORUM_RETRY_BACKOFF_MS = Setting(
    "controller.quorum.retry.backoff.ms", INT, 20, "How long a voter rests before it asks again.", at_least(0)
)
CONTROLLER_QUORUM_APPEND_LINGER_MS = Setting(
    "controller.quorum.append.linger.ms",
    INT,
    25,
    "How long the leader gathers records for one write.",
    at_least(0),
    inert="metadata records are written at once, and those that come during a sync share the next",
)
CONTROLLER_QUORUM_FETCH_MAX_BYTES = Setting(
    "controller.quorum.fetch.max.bytes",
    INT,
    1 << 20,
    "The most of the metadata log in one answer.",
    at_least(1),
    inert=_FIXED_PIECES,
)
CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES = Setting(
    "controller.quorum.fetch.snapshot.max.bytes",
    INT,
    1 << 20,
    "The most of a snapshot in one answer.",
    at_least(1),
    inert=_FIXED_PIECES,
)
CONTROLLER_QUORUM_AUTO_JOIN_ENABLE = Setting(
    "controller.quorum.auto.join.enable",
    BOOLEAN,
    False,
    "Whether a controller makes itself a voter.",
    inert="the voters are those that were named when the storage was formatted",
)

METADATA_LOG_DIR: Setting[str | None] = Setting(
    "metadata.log.dir", STRING, None, "The directory of the metadata log; the first data directory if not set."
)
METADATA_LOG_SEGMENT_BYTES = Setting(
    "metadata.log.segment.bytes", INT, 1 << 30, "The largest segment of the metadata log.", at_least(8 << 20)
)
METADATA_LOG_SEGMENT_MS = Setting(
    "metadata.log.segment.ms", LONG, 604_800_000, "The age at which a segment of the metadata log is rolled."
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = Setting(
    "metadata.log.max.record.bytes.between.snapshots",
    LONG,
    20 << 20,
    "Bytes of new metadata after which a snapshot is written.",
    at_least(1),
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = Setting(
    "metadata.log.max.snapshot.interval.ms",
    LONG,
    3_600_000,
    "Time after which new metadata goes into a snapshot; 0 is never.",
    at_least(0),
)
METADATA_MAX_RETENTION_BYTES = Setting(
    "metadata.max.retention.bytes", LONG, 100 << 20, "How large the metadata log with its snapshots may grow."
)
METADATA_MAX_RETENTION_MS = Setting(
    "metadata.max.retention.ms", LONG, 604_800_000, "How long old metadata segments and snapshots are kept."
)
METADATA_MAX_IDLE_INTERVAL_MS = Setting(
    "metadata.max.idle.interval.ms",
    INT,
    500,
    "How often an idle active controller writes a no-op record; 0 is never.",
    at_least(0),
)
INTERNAL_METADATA_LOG_SEGMENT_BYTES: Setting[int | None] = Setting(
    "internal.metadata.log.segment.bytes",
    INT,
    None,
    "metadata.log.segment.bytes without its lower bound, for tests.",
    internal=True,
)
INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES = Setting(
    "internal.metadata.max.batch.size.in.bytes",
    INT,
    8 << 20,
    "The largest batch of metadata records.",
    internal=True,
    inert="a decision of the controller is one batch, bounded by 10 000 records",
)
INTERNAL_METADATA_DELETE_DELAY_MILLIS = Setting(
    "internal.metadata.delete.delay.millis", LONG, 60_000, "How long a deleted metadata file stays.", internal=True
)

BROKER_HEARTBEAT_INTERVAL_MS = Setting(
    "broker.heartbeat.interval.ms", INT, 2000, "How often a broker sends a heartbeat to the controller."
)
BROKER_SESSION_TIMEOUT_MS = Setting("broker.session.timeout.ms", INT, 9000, "A broker silent for so long is fenced.")
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = Setting(
    "initial.broker.registration.timeout.ms", INT, 60_000, "A broker not registered by then gives up."
)
CONTROLLER_SOCKET_TIMEOUT_MS = Setting(
    "controller.socket.timeout.ms", INT, 30_000, "How long a broker waits for the controller's answer."
)
SERVER_MAX_STARTUP_TIME_MS = Setting(
    "server.max.startup.time.ms",
    LONG,
    2**63 - 1,
    "A node not started by then gives up.",
    at_least(0),
    internal=True,
)
