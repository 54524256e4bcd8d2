"""Settings of a node as a server: its identity, its listeners, and its limits for clients."""

from __future__ import annotations

from highwater.config.kinds import BOOLEAN, INT, INT_MAX, LIST, LONG, STRING, HostAndPort, at_least, list_of, one_of
from highwater.config.setting import REQUIRED, Setting, Update

_LOOP = "one event loop serves a node"
_SYSTEM_SIZES = "the system and the event loop size socket buffers and backlogs"
_CLUSTER_WIDE = Update.CLUSTER_WIDE

NODE_ID: Setting[int] = Setting("node.id", INT, REQUIRED, "The node's number, unique in the cluster.", at_least(0))
BROKER_ID = Setting("broker.id", INT, -1, "The old name of node.id; where both are set they must agree.")
PROCESS_ROLES: Setting[tuple[str, ...]] = Setting(
    "process.roles",
    LIST,
    REQUIRED,
    "What this process is: broker, controller, or both.",
    list_of("broker", "controller", may_be_empty=False),
)
BROKER_RACK: Setting[str | None] = Setting(
    "broker.rack", STRING, None, "The rack or zone of this broker, for clients and for placement."
)

LISTENERS = Setting(
    "listeners",
    LIST,
    ("PLAINTEXT://:9092",),
    "Where to listen: NAME://host:port, comma-separated. An empty host is every interface; port 0 a free one.",
    list_of(may_be_empty=False),
)
ADVERTISED_LISTENERS: Setting[tuple[str, ...] | None] = Setting(
    "advertised.listeners",
    LIST,
    None,
    "The addresses that clients get, if they differ from listeners.",
    list_of(may_be_empty=False),
)
LISTENER_SECURITY_PROTOCOL_MAP = Setting(
    "listener.security.protocol.map",
    STRING,
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "Which security protocol each listener name stands for, as NAME:PROTOCOL pairs.",
)
CONTROLLER_LISTENER_NAMES: Setting[tuple[str, ...]] = Setting(
    "controller.listener.names",
    LIST,
    REQUIRED,
    "The listeners that serve the controller; the first is the one that nodes dial.",
    list_of(may_be_empty=False),
)
INTER_BROKER_LISTENER_NAME: Setting[str | None] = Setting(
    "inter.broker.listener.name", STRING, None, "The listener by which brokers reach each other."
)
SECURITY_INTER_BROKER_PROTOCOL = Setting(
    "security.inter.broker.protocol",
    STRING,
    "PLAINTEXT",
    "The protocol between brokers, where inter.broker.listener.name is not set.",
    one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
)

SOCKET_LISTEN_BACKLOG_SIZE = Setting(
    "socket.listen.backlog.size", INT, 50, "Connections that may wait to be accepted.", at_least(1), inert=_SYSTEM_SIZES
)
SOCKET_SEND_BUFFER_BYTES = Setting(
    "socket.send.buffer.bytes", INT, 102400, "SO_SNDBUF of a connection.", inert=_SYSTEM_SIZES
)
SOCKET_RECEIVE_BUFFER_BYTES = Setting(
    "socket.receive.buffer.bytes", INT, 102400, "SO_RCVBUF of a connection.", inert=_SYSTEM_SIZES
)
SOCKET_REQUEST_MAX_BYTES = Setting(
    "socket.request.max.bytes", INT, 104857600, "The largest request; a longer one ends its connection.", at_least(1)
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MS = Setting(
    "socket.connection.setup.timeout.ms", LONG, 10_000, "How long a dial to another node may take."
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = Setting(
    "socket.connection.setup.timeout.max.ms", LONG, 30_000, "The longest dial, as the time grows with failures."
)
CONNECTIONS_MAX_IDLE_MS = Setting(
    "connections.max.idle.ms", LONG, 600_000, "A connection without traffic for so long is closed; -1 for never."
)
MAX_CONNECTIONS = Setting(
    "max.connections",
    INT,
    10_000,
    "Connections that a node holds at a time, over all its listeners.",
    at_least(0),
    _CLUSTER_WIDE,
    kafka_default=str(INT_MAX),
)
MAX_CONNECTIONS_PER_IP = Setting(
    "max.connections.per.ip", INT, INT_MAX, "Connections held at a time from one address.", at_least(0), _CLUSTER_WIDE
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = Setting(
    "max.connections.per.ip.overrides",
    STRING,
    "",
    "Exceptions to max.connections.per.ip, as host:count pairs.",
    update=_CLUSTER_WIDE,
)
QUEUED_MAX_REQUESTS = Setting(
    "queued.max.requests", INT, 500, "Requests of a connection at work at a time; then it is not read.", at_least(1)
)
QUEUED_MAX_REQUEST_BYTES = Setting(
    "queued.max.request.bytes",
    LONG,
    128 << 20,
    "Bytes of requests at work at a time, and of one batch that inflates; beyond it reading pauses. -1 is no bound.",
    kafka_default="-1",
)
REQUEST_TIMEOUT_MS = Setting(
    "request.timeout.ms", INT, 30_000, "How long the creation of a topic that a client asked for may take."
)

FETCH_MAX_BYTES = Setting(
    "fetch.max.bytes", INT, 57671680, "The most that one fetch response carries, whatever was asked.", at_least(1024)
)
HIGHWATER_HTTP_LISTENER: Setting[str | None] = Setting(
    "highwater.http.listener",
    STRING,
    None,
    "host:port where /status and /metrics are served over HTTP; off if not set, port 0 takes a free one.",
    HostAndPort(),
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = Setting(
    "max.incremental.fetch.session.cache.slots", INT, 1000, "Fetch sessions kept at a time.", at_least(0)
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = Setting(
    "max.request.partition.size.limit", INT, 2000, "Partitions in one DescribeTopicPartitions answer.", at_least(1)
)
MESSAGE_MAX_BYTES = Setting(
    "message.max.bytes", INT, 1048588, "The largest batch a topic takes, compressed.", at_least(0), _CLUSTER_WIDE
)

AUTO_CREATE_TOPICS_ENABLE = Setting(
    "auto.create.topics.enable", BOOLEAN, True, "Whether asking for an unknown topic creates it."
)
DELETE_TOPIC_ENABLE = Setting("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted.")
NUM_PARTITIONS = Setting("num.partitions", INT, 1, "Partitions of a topic created without a number.", at_least(1))
DEFAULT_REPLICATION_FACTOR = Setting(
    "default.replication.factor", INT, 1, "Replicas of a topic created without a number."
)

CONTROLLED_SHUTDOWN_ENABLE = Setting(
    "controlled.shutdown.enable", BOOLEAN, True, "Whether a stopping broker first hands over its leaderships."
)

NUM_NETWORK_THREADS = Setting(
    "num.network.threads", INT, 3, "Threads for sockets.", at_least(1), _CLUSTER_WIDE, inert=_LOOP
)
NUM_IO_THREADS = Setting("num.io.threads", INT, 8, "Threads for requests.", at_least(1), _CLUSTER_WIDE, inert=_LOOP)
BACKGROUND_THREADS = Setting(
    "background.threads", INT, 10, "Threads for background work.", at_least(1), _CLUSTER_WIDE, inert=_LOOP
)
MAX_CONNECTION_CREATION_RATE = Setting(
    "max.connection.creation.rate",
    INT,
    INT_MAX,
    "New connections per second.",
    at_least(0),
    _CLUSTER_WIDE,
    inert="the rate of new connections is not limited; their number is, by max.connections",
)
