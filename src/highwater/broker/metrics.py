"""Metrics for Prometheus, under the names that dashboards for jmx_exporter and kafka_exporter use.

Counters are plain integers kept where things happen; everything else is read when it is scraped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from highwater.broker.broker import Broker
from highwater.metadata.topics import PartitionImage, TopicImage
from highwater.net.stats import LoopLag, NetStats

if TYPE_CHECKING:
    from prometheus_client import Metric

API_NAMES = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    32: "DescribeConfigs",
    37: "CreatePartitions",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    55: "DescribeQuorum",
    60: "DescribeCluster",
    75: "DescribeTopicPartitions",
}


class BrokerMetrics:
    """A Prometheus collector over one broker."""

    def __init__(self, broker: Broker, stats: NetStats, lag: LoopLag, is_controller: Callable[[], bool]) -> None:
        self._broker = broker
        self._stats = stats
        self._lag = lag
        self._is_controller = is_controller

    def exposition(self) -> bytes:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        yield from self._broker_gauges()
        yield from self._topic_counters()
        yield from self._partition_gauges()
        yield from self._cluster_gauges()
        yield from self._network()

    def _broker_gauges(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily as Gauge

        led = [each for each in self._broker.hosted if each.leader is not None]
        under = [each for each in led if each.leader and len(each.leader.isr) < len(each.leader.replicas)]
        under_min = [
            each for each in led if each.leader and not each.leader.enough_in_sync(each.log.config.min_insync_replicas)
        ]
        at_min = [
            each
            for each in led
            if each.leader and len(each.leader.isr) == min(each.log.config.min_insync_replicas, len(each.replicas))
        ]
        offline = [each for each in self._broker.hosted if each.log.offline is not None]
        server = "kafka_server_replicamanager_"
        yield Gauge(server + "leadercount", "Partitions led by this broker.", len(led))
        yield Gauge(server + "partitioncount", "Replicas on this broker.", len(self._broker.hosted))
        yield Gauge(server + "underreplicatedpartitions", "Led partitions with a small ISR.", len(under))
        yield Gauge(server + "underminisrpartitioncount", "Led partitions below min ISR.", len(under_min))
        yield Gauge(server + "atminisrpartitioncount", "Led partitions at min ISR.", len(at_min))
        yield Gauge(server + "offlinereplicacount", "Replicas whose log failed.", len(offline))
        in_sync = self._broker.in_sync
        from prometheus_client.core import CounterMetricFamily as Counter

        yield Counter(server + "isrshrinks", "ISR shrinks asked for by leaders here.", in_sync.shrinks)
        yield Counter(server + "isrexpands", "ISR expansions asked for by leaders here.", in_sync.expands)
        active = int(self._is_controller())
        yield Gauge("kafka_controller_kafkacontroller_activecontrollercount", "1 on the active controller.", active)

    def _topic_counters(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily as Counter

        sums: dict[str, list[int]] = {}
        for partition in self._broker.hosted:
            totals = sums.setdefault(partition.tp.topic, [0, 0, 0])
            totals[0] += partition.records_in
            totals[1] += partition.bytes_in
            totals[2] += partition.bytes_out
        names = ("messagesin", "bytesin", "bytesout")
        for at, name in enumerate(names):
            family = Counter(f"kafka_server_brokertopicmetrics_{name}", f"{name} by topic.", labels=["topic"])
            for topic in sorted(sums):
                family.add_metric([topic], sums[topic][at])
            yield family

    def _partition_gauges(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily as Gauge

        labels = ["topic", "partition"]
        size = Gauge("kafka_log_log_size", "Bytes on disk.", labels=labels)
        end = Gauge("kafka_log_log_logendoffset", "Next offset to be written.", labels=labels)
        start = Gauge("kafka_log_log_logstartoffset", "First offset.", labels=labels)
        segments = Gauge("kafka_log_log_numlogsegments", "Segments.", labels=labels)
        lag = Gauge("kafka_cluster_partition_replicaslag", "Records the slowest follower lacks.", labels=labels)
        for partition in sorted(self._broker.hosted, key=lambda each: each.tp):
            names = [partition.tp.topic, str(partition.tp.partition)]
            log = partition.log
            size.add_metric(names, log.size)
            end.add_metric(names, log.log_end)
            start.add_metric(names, log.log_start)
            segments.add_metric(names, len(log.segments))
            if partition.leader is not None and partition.leader.followers:
                slowest = min(progress.end for progress in partition.leader.followers.values())
                lag.add_metric(names, log.log_end - max(slowest, 0))
        yield from (size, end, start, segments, lag)

    def _cluster_gauges(self) -> Iterator[Metric]:
        """kafka_exporter's view: every partition of the cluster, offsets where this broker leads."""
        from prometheus_client.core import GaugeMetricFamily as Gauge

        image = self._broker.image
        live = sum(1 for broker in image.brokers.by_id.values() if not broker.fenced)
        yield Gauge("kafka_brokers", "Brokers that are not fenced.", live)
        counts = Gauge("kafka_topic_partitions", "Partitions of a topic.", labels=["topic"])
        labels = ["topic", "partition"]
        families = {
            name: Gauge(f"kafka_topic_partition_{name}", text, labels=labels)
            for name, text in (
                ("leader", "The leader's id."),
                ("replicas", "Assigned replicas."),
                ("in_sync_replica", "Replicas in sync."),
                ("leader_is_preferred", "1 if the first replica leads."),
                ("under_replicated_partition", "1 if not all replicas are in sync."),
                ("current_offset", "The high watermark, on the leader."),
                ("oldest_offset", "The log start, on the leader."),
            )
        }
        offline = 0
        for topic in sorted(image.topics.by_name.values()):
            counts.add_metric([topic.name], len(topic.partitions))
            for index in sorted(topic.partitions):
                part = topic.partitions[index]
                offline += not part.has_leader
                for name, value in self._partition_values(topic, index, part):
                    families[name].add_metric([topic.name, str(index)], value)
        yield counts
        yield from families.values()
        yield Gauge("kafka_controller_kafkacontroller_offlinepartitionscount", "Partitions with no leader.", offline)
        topics = len(image.topics.by_name)
        yield Gauge("kafka_controller_kafkacontroller_globaltopiccount", "Topics of the cluster.", topics)

    def _partition_values(self, topic: TopicImage, index: int, part: PartitionImage) -> Iterator[tuple[str, float]]:
        yield "leader", part.leader
        yield "replicas", len(part.replicas)
        yield "in_sync_replica", len(part.isr)
        yield "leader_is_preferred", int(part.leader == part.replicas[0])
        yield "under_replicated_partition", int(len(part.isr) < len(part.replicas))
        hosted = self._broker.hosted.find(topic.id, index)
        if hosted is not None and hosted.leader is not None:
            yield "current_offset", hosted.log.high_watermark
            yield "oldest_offset", hosted.log.log_start

    def _network(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily as Counter
        from prometheus_client.core import GaugeMetricFamily as Gauge

        requests = Counter("kafka_network_requestmetrics_requests", "Requests by API.", labels=["request"])
        for key, count in sorted(self._stats.requests.items()):
            requests.add_metric([API_NAMES.get(key, str(key))], count)
        yield requests
        stats = self._stats
        yield Gauge("kafka_server_socket_server_metrics_connection_count", "Open connections.", stats.connections)
        yield Counter("kafka_server_socket_server_metrics_incoming_byte", "Bytes received.", stats.bytes_in)
        yield Counter("kafka_server_socket_server_metrics_outgoing_byte", "Bytes sent.", stats.bytes_out)
        yield Gauge("highwater_loop_lag_max_seconds", "The longest turn of the loop so far.", self._lag.max)
