"""Settings of replication between brokers, and of the controller's elections."""

from __future__ import annotations

from highwater.config.kinds import BOOLEAN, INT, LONG, LONG_MAX, STRING, at_least, between
from highwater.config.setting import Setting, Update

_ONE_CONVERSATION = "a follower fetches from each leader by one connection, in one session"
_SYSTEM_SIZES = "the system and the event loop size socket buffers and backlogs"
_NO_PURGATORY = "waiting requests are swept by deadline, not by count"

MIN_INSYNC_REPLICAS = Setting(
    "min.insync.replicas",
    INT,
    1,
    "Replicas that must have a record before acks=all is answered.",
    at_least(1),
    Update.CLUSTER_WIDE,
)
UNCLEAN_LEADER_ELECTION_ENABLE = Setting(
    "unclean.leader.election.enable",
    BOOLEAN,
    False,
    "Whether a replica outside the ISR may lead, losing records, if none other is left.",
    update=Update.CLUSTER_WIDE,
)
UNCLEAN_LEADER_ELECTION_INTERVAL_MS = Setting(
    "unclean.leader.election.interval.ms",
    LONG,
    300_000,
    "How often leaderless partitions are looked for.",
    at_least(1),
    internal=True,
)
AUTO_LEADER_REBALANCE_ENABLE = Setting(
    "auto.leader.rebalance.enable", BOOLEAN, True, "Whether leaders move back to preferred replicas."
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = Setting(
    "leader.imbalance.check.interval.seconds",
    LONG,
    300,
    "How often misplaced leaders are looked for.",
    at_least(1),
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = Setting(
    "leader.imbalance.per.broker.percentage",
    INT,
    0,
    "The share of its leaderships that a broker may miss before they move back. Kafka 4 has no such setting.",
    between(0, 100),
)

NUM_REPLICA_FETCHERS = Setting(
    "num.replica.fetchers",
    INT,
    1,
    "Connections by which a follower fetches from one leader.",
    at_least(1),
    Update.CLUSTER_WIDE,
    inert=_ONE_CONVERSATION,
)
REPLICA_LAG_TIME_MAX_MS = Setting(
    "replica.lag.time.max.ms", LONG, 30_000, "A follower behind for so long leaves the ISR."
)
REPLICA_SOCKET_TIMEOUT_MS = Setting(
    "replica.socket.timeout.ms", INT, 30_000, "How long a follower waits for an answer."
)
REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = Setting(
    "replica.socket.receive.buffer.bytes", INT, 65536, "SO_RCVBUF of a follower's connection.", inert=_SYSTEM_SIZES
)
REPLICA_FETCH_MAX_BYTES = Setting(
    "replica.fetch.max.bytes", INT, 1 << 20, "What a follower asks for per partition.", at_least(0)
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = Setting(
    "replica.fetch.response.max.bytes",
    INT,
    10 << 20,
    "What a follower asks for at a time.",
    at_least(0),
)
REPLICA_FETCH_WAIT_MAX_MS = Setting(
    "replica.fetch.wait.max.ms", INT, 500, "How long a follower's fetch may wait for records."
)
REPLICA_FETCH_MIN_BYTES = Setting("replica.fetch.min.bytes", INT, 1, "What a follower's fetch waits for.")
REPLICA_FETCH_BACKOFF_MS = Setting(
    "replica.fetch.backoff.ms", INT, 1000, "How long a follower rests after an error.", at_least(0)
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = Setting(
    "replica.high.watermark.checkpoint.interval.ms", LONG, 5000, "How often high watermarks are written."
)

LEADER_REPLICATION_THROTTLED_RATE = Setting(
    "leader.replication.throttled.rate",
    LONG,
    LONG_MAX,
    "The bytes per second that leaders here send to throttled replicas outside the ISR.",
    at_least(0),
    Update.CLUSTER_WIDE,
    internal=True,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = Setting(
    "follower.replication.throttled.rate",
    LONG,
    LONG_MAX,
    "The bytes per second that throttled replicas here, outside the ISR, take in.",
    at_least(0),
    Update.CLUSTER_WIDE,
    internal=True,
)

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
REPLICA_SELECTOR_CLASS: Setting[str | None] = Setting(
    "replica.selector.class",
    STRING,
    None,
    f"Where consumers read. {RACK_AWARE_SELECTOR} sends each to a replica in its rack; else all read leaders.",
)

FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = Setting(
    "fetch.purgatory.purge.interval.requests", INT, 1000, "When done fetches are purged.", inert=_NO_PURGATORY
)
PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS = Setting(
    "producer.purgatory.purge.interval.requests",
    INT,
    1000,
    "When done produce requests are purged.",
    inert=_NO_PURGATORY,
)
DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS = Setting(
    "delete.records.purgatory.purge.interval.requests", INT, 1, "When done deletions are purged.", inert=_NO_PURGATORY
)
