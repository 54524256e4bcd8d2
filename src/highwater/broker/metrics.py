"""The metrics of one broker: its replicas with Kafka's metric names, and the cluster with those of kafka_exporter.

Prometheus adds up what it scrapes from all brokers, so each fact is reported once. A partition is reported by its
leader. The cluster, and partitions without a leader, are reported by the active broker with the lowest id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from highwater.broker.broker import Broker
from highwater.broker.cleaning_report import cleaner_families
from highwater.broker.replica_image import is_under_replicated
from highwater.metadata.topics import PartitionImage
from highwater.net.metrics import Family, counter, gauge, labels
from highwater.partition.partition import Partition
from highwater.replication.leader import Leader

Led = tuple[Partition, Leader]


class BrokerMetrics:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Family]:
        hosted = sorted(self._broker.hosted, key=lambda each: each.tp)
        led = [(each, each.leader) for each in hosted if each.leader is not None]
        yield from self._replicas(hosted, led)
        yield from _traffic(hosted)
        yield from _logs(hosted)
        yield from self._partitions(led)
        yield from self._followers(led)
        kept = self._broker.groups.kept
        yield gauge("highwater_groups_kept_bytes", "Memory of the groups and offsets coordinated here.", kept)
        yield from self._broker.latencies.families()
        yield from self._cluster()
        yield from cleaner_families(self._broker, hosted)

    def _replicas(self, hosted: list[Partition], led: list[Led]) -> Iterator[Family]:
        manager = "kafka_server_replicamanager_"
        in_sync = self._broker.in_sync
        offline = sum(each.log.offline is not None for each in hosted)
        yield gauge(manager + "leadercount", "Partitions led by this broker.", len(led))
        yield gauge(manager + "partitioncount", "Replicas on this broker.", len(hosted))
        yield gauge(manager + "offlinereplicacount", "Replicas here whose log failed.", offline)
        yield gauge(
            manager + "underreplicatedpartitions", "Led here, not all replicas in sync.", sum(map(self._is_short, led))
        )
        yield gauge(
            manager + "underminisrpartitioncount", "Led here, ISR below min.insync.replicas.", sum(map(_is_under, led))
        )
        yield gauge(
            manager + "atminisrpartitioncount", "Led here, ISR just at min.insync.replicas.", sum(map(_is_at, led))
        )
        yield counter(manager + "isrshrinks", "Shrinks of ISRs that leaders here asked for.", in_sync.shrinks)
        yield counter(manager + "isrexpands", "Expansions of ISRs that leaders here asked for.", in_sync.expands)

    def _partitions(self, led: list[Led]) -> Iterator[Family]:
        rows = [(_names(each[0]), each) for each in led]
        for name, text, value in (
            ("replicascount", "Assigned replicas.", lambda each: len(each[1].replicas)),
            ("insyncreplicascount", "Replicas in sync.", lambda each: len(each[1].isr)),
            ("underreplicated", "1 if not all replicas are in sync.", self._is_short),
            ("underminisr", "1 if the ISR is below min.insync.replicas.", _is_under),
            ("atminisr", "1 if the ISR is just at min.insync.replicas.", _is_at),
        ):
            yield gauge(f"kafka_cluster_partition_{name}", text, [(names, int(value(each))) for names, each in rows])

    def _is_short(self, led: Led) -> bool:
        partition, leader = led
        image = self._broker.metadata.partition_image(partition.topic_id, partition.tp.partition)
        return is_under_replicated(image, leader)

    def _followers(self, led: list[Led]) -> Iterator[Family]:
        """The lag of each follower, in records and in time. Kafka's leaders do not report it."""
        now = self._broker.in_sync.now()
        records, seconds = [], []
        for partition, leader in led:
            log_end = partition.log.log_end
            for replica, progress in sorted(leader.followers.items()):
                names = labels(topic=partition.tp.topic, partition=partition.tp.partition, replica=replica)
                if progress.end is not None:
                    records.append((names, log_end - progress.end))
                has_all = progress.end is not None and progress.end >= log_end
                seconds.append((names, 0.0 if has_all else now - leader.behind_since(replica)))
        yield gauge("highwater_follower_lag_records", "Records that a follower lacks.", records)
        yield gauge("highwater_follower_lag_seconds", "Since a follower last had everything.", seconds)

    def _cluster(self) -> Iterator[Family]:
        """The metrics of kafka_exporter."""
        broker, image = self._broker, self._broker.metadata.image
        active = [each for each in sorted(image.brokers.by_id.values()) if each.active]
        speaks = bool(active) and active[0].id == broker.node_id
        if speaks:
            addresses = broker.metadata.node_endpoints(
                (each.id for each in active), broker.metadata.config.inter_broker_listener
            )
            yield gauge("kafka_brokers", "Brokers that are not fenced.", len(active))
            info = [(labels(id=at.id, address=f"{at.host}:{at.port}"), 1) for at in addresses]
            yield gauge("kafka_broker_info", "The ids and addresses of the brokers.", info)
            counts = [
                (labels(topic=name), len(topic.partitions)) for name, topic in sorted(image.topics.by_name.items())
            ]
            yield gauge("kafka_topic_partitions", "Partitions of a topic.", counts)
        reported = [
            (labels(topic=topic.name, partition=index), part, broker.hosted.find(topic.id, index))
            for topic, index, part in sorted(image.topics.each_partition(), key=lambda place: (place[0].name, place[1]))
            if part.leader == broker.node_id or (speaks and not part.has_leader)
        ]
        for name, text, value in _EXPORTED:
            rows = [(names, value(part)) for names, part, _ in reported]
            yield gauge(f"kafka_topic_partition_{name}", text, rows)
        led = [(names, each.log) for names, _, each in reported if each is not None and each.leader is not None]
        committed = [(names, log.high_watermark) for names, log in led]
        oldest = [(names, log.log_start) for names, log in led]
        yield gauge("kafka_topic_partition_current_offset", "The high watermark.", committed)
        yield gauge("kafka_topic_partition_oldest_offset", "The first offset that is left.", oldest)


_EXPORTED: tuple[tuple[str, str, Callable[[PartitionImage], float]], ...] = (
    ("leader", "The leader's id; -1 if there is none.", lambda part: part.leader),
    ("leader_is_preferred", "1 if the first replica leads.", lambda part: int(part.has_preferred_leader)),
    ("replicas", "Assigned replicas.", lambda part: len(part.replicas)),
    ("in_sync_replica", "Replicas in sync.", lambda part: len(part.isr)),
    ("under_replicated_partition", "1 if not all are in sync.", lambda part: int(len(part.isr) < len(part.replicas))),
)


def _traffic(hosted: list[Partition]) -> Iterator[Family]:
    """The traffic of clients by topic, and the traffic of replication in total, as in Kafka."""
    sums: dict[str, list[int]] = {}
    for partition in hosted:
        totals = sums.setdefault(partition.tp.topic, [0, 0, 0])
        totals[0] += partition.records_in
        totals[1] += partition.bytes_in
        totals[2] += partition.bytes_out
    traffic = "kafka_server_brokertopicmetrics_"
    for at, (name, text) in enumerate(
        (("messagesin", "Records from clients."), ("bytesin", "Bytes from clients."), ("bytesout", "Bytes to clients."))
    ):
        yield counter(traffic + name, text, [(labels(topic=topic), totals[at]) for topic, totals in sums.items()])
    into = sum(partition.replication_bytes_in for partition in hosted)
    out = sum(partition.replication_bytes_out for partition in hosted)
    yield counter(traffic + "replicationbytesin", "Bytes fetched from leaders.", into)
    yield counter(traffic + "replicationbytesout", "Bytes fetched by followers.", out)


def _logs(hosted: list[Partition]) -> Iterator[Family]:
    rows = [(_names(partition), partition.log) for partition in hosted]
    for name, text, value in (
        ("size", "Bytes on disk.", lambda log: log.size),
        ("logstartoffset", "The first offset.", lambda log: log.log_start),
        ("logendoffset", "The next offset to be written.", lambda log: log.log_end),
        ("numlogsegments", "Segments.", lambda log: len(log.segments)),
    ):
        yield gauge(f"kafka_log_log_{name}", text, [(names, value(log)) for names, log in rows])


def _is_under(led: Led) -> bool:
    return not led[1].enough_in_sync


def _is_at(led: Led) -> bool:
    return len(led[1].isr) == min(led[0].log.config.min_insync_replicas, len(led[1].replicas))


def _names(partition: Partition) -> str:
    return labels(topic=partition.tp.topic, partition=partition.tp.partition)
