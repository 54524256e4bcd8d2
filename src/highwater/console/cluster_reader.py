"""What the console knows of the cluster, and the questions by which it learns it. Each round is one thread's work; the
views are computed from what the last rounds found."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from highwater.client import ClientFailure
from highwater.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from highwater.console import overview
from highwater.console.clients import Clients, OwnClient
from highwater.console.discovery import Nodes, asked_nodes, local_nodes
from highwater.console.group_reader import lags, read_groups
from highwater.console.kafka_lanes import directories, kafka_lanes
from highwater.console.lag_history import LagHistory
from highwater.console.lanes import grid_of, lanes_of
from highwater.console.latency import Percentiles
from highwater.console.move_reader import MoveReader
from highwater.console.mover import Mover
from highwater.console.node_status import NodeStatus, Status
from highwater.console.paced import Paced, period
from highwater.console.pipelines import PipelineReader
from highwater.console.rates import BYTES_IN, BYTES_OUT, LOG_SIZE, RECORDS_IN, Rates, totals
from highwater.console.retention import Retention, retentions
from highwater.console.timeline import Leadership, Timeline
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.wire.messages.metadata_response import MetadataResponseTopic

CHANGES_SHOWN: Final = 60
GRID_SHOWN: Final = 512
"""The first partitions of one topic, which are drawn."""


class ClusterReader:
    def __init__(
        self,
        clients: Clients,
        nodes_file: Path | None = None,
        pipelines: Sequence[str] = (),
        wall: Callable[[], float] = time.time,
        *,
        follows: bool = False,
    ) -> None:
        """`nodes_file` tells the nodes of a `highwater up`. If the console `follows` it, it connects to the servers
        that are listed there, whichever they are."""
        self.clients = clients
        self._nodes_file = nodes_file
        self._follows = follows
        self._wall = wall
        self._client = OwnClient(clients)
        self._group_client = OwnClient(clients)
        self._status = NodeStatus()
        self.timeline = Timeline()
        self.lag_history = LagHistory()
        self.move_reader = MoveReader(clients)
        self.mover = Mover(clients)
        self.pipelines = PipelineReader(pipelines)
        self.nodes = Nodes()
        self.statuses: dict[int, Status | None] = {}
        self.topics: list[MetadataResponseTopic] = []
        self.alive: set[int] = set()
        self.ends: dict[TopicPartition, tuple[int, int]] = {}
        self.sizes: dict[str, int] = {}
        self.disks: dict[int, tuple[int, int]] = {}
        """By broker: (bytes in all, bytes free)."""
        self.retentions: dict[str, Retention] = {}
        self.percentiles = Percentiles()
        self.groups: dict[str, dict[str, Any]] = {}
        self.error: str | None = None
        self.bytes_in, self.bytes_out, self.records_in = Rates(), Rates(), Rates()
        self._asked_nodes = Paced(self._discover, lambda: 5.0)
        self._metadata = Paced(self._ask_metadata, lambda: period(1.0, self._partitions, 500))
        self._counters = Paced(self._ask_counters, lambda: period(2.0, self._partitions, 100))
        self._settings = Paced(self._ask_settings, lambda: period(5.0, len(self.topics), 20))
        self._all_groups = Paced(self._ask_groups, lambda: period(2.0, len(self.groups), 10))
        self._answered: set[str] = set()
        self._lane_clients: dict[int, OwnClient] = {}

    def close(self) -> None:
        self._status.close()
        self.move_reader.close()
        for client in (self._client, self._group_client, *self._lane_clients.values()):
            client.close()

    # --- rounds

    @property
    def _partitions(self) -> int:
        return sum(len(each.partitions) for each in self.topics)

    def status_seconds(self, topics: frozenset[str]) -> float:
        """How long to wait before the statuses with the partitions of these topics are asked for again."""
        listed = sum(
            len(each.partitions) for each in self.topics if not topics or len(topics) > 1 or each.name in topics
        )
        return period(1.0, listed if topics else 0, 200)

    def is_known(self, view: str) -> bool:
        """Whether the cluster has answered what this view shows."""
        if view in ("groups", "group"):
            return "groups" in self._answered
        if view in ("moves", "pipelines"):
            return view in self._answered
        if view == "overview" and self.nodes.is_highwater:
            return "statuses" in self._answered
        return "cluster" in self._answered

    def ask_statuses(self, topics: frozenset[str]) -> None:
        """One question to each node of Highwater."""
        if self._nodes_file is not None and (found := local_nodes(self._nodes_file)) is not None:
            self.nodes = found
            if self._follows and found.servers and self.clients.follow(found.servers):
                for each in (self._metadata, self._counters, self._settings, self._all_groups):
                    each.hurry()
        if self.nodes.is_highwater:
            self.statuses = self._status.summaries(self.nodes.status, topics)
            self._answered.add("statuses")
            now = self._wall()
            for status in self.statuses.values():
                self.timeline.note_decisions(now, (status or {}).get("decisions", ()))

    def ask_cluster(self) -> None:
        """By Kafka's protocol: topics, offsets, sizes. A failure is shown, and the last answers stay."""
        try:
            if self._nodes_file is None:
                self.nodes = self._asked_nodes.value()
            self.topics = self._metadata.value()
            self._counters.value()
            self._settings.value()
            self.error = None
        except (KafkaError, ClientFailure) as failure:
            self.error = str(failure)
        self._answered.add("cluster")

    def ask_groups(self) -> None:
        try:
            self.groups = self._all_groups.value()
        except (KafkaError, ClientFailure) as failure:
            self.error = str(failure)
        self._answered.add("groups")

    def ask_moves(self) -> None:
        self.move_reader.ask()
        self._answered.add("moves")

    def ask_pipelines(self) -> None:
        self.pipelines.ask()
        self._answered.add("pipelines")

    def _discover(self) -> Nodes:
        silent = {node for node, status in self.statuses.items() if status is None}
        found = asked_nodes(self._client.get(), self.nodes, silent)
        if found.cluster_id != self.nodes.cluster_id:
            self.disks = {}
        return found

    def _ask_metadata(self) -> list[MetadataResponseTopic]:
        client = self._client.get()
        answer = client.retrying(lambda: client.metadata(None))
        topics = sorted(
            (each for each in answer.topics if each.name and each.error_code == Code.NONE),
            key=lambda each: each.name or "",
        )
        alive = {broker.node_id for broker in answer.brokers}
        if not self.nodes.is_highwater and self.topics:
            now = self._wall()
            self.timeline.note_difference(now, _leaderships(self.topics), _leaderships(topics))
        if not self.nodes.is_highwater and self.alive:
            self.timeline.note_brokers(self._wall(), self.alive, alive)
        self.alive = alive
        return topics

    def _ask_counters(self) -> bool:
        now = time.monotonic()
        places = [
            TopicPartition(topic.name or "", part.partition_index)
            for topic in self.topics
            for part in topic.partitions
            if part.leader_id >= 0
        ]
        client = self._client.get()
        firsts = list_offsets(client, dict.fromkeys(places, EARLIEST))
        ends = list_offsets(client, dict.fromkeys(places, LATEST))
        self.ends = {
            place: (first.offset, end.offset)
            for place, end in ends.items()
            if isinstance(end, FoundOffset) and isinstance(first := firsts[place], FoundOffset)
        }
        if self.nodes.is_highwater:
            texts = self._status.metrics(self.nodes.status)
            found = totals(texts.values())
            self.bytes_in.note(now, found[BYTES_IN])
            self.bytes_out.note(now, found[BYTES_OUT])
            self.records_in.note(now, found[RECORDS_IN])
            self.sizes = found[LOG_SIZE]
            self.percentiles.note(now, texts)
            self._ask_space()
        else:
            grown: dict[str, int] = {}
            for place, (_, end) in self.ends.items():
                grown[place.topic] = grown.get(place.topic, 0) + end
            self.records_in.note(now, grown)
            self._ask_directories()
        return True

    def _ask_settings(self) -> bool:
        self.retentions = retentions(self._client.get(), [each.name or "" for each in self.topics])
        return True

    def _ask_directories(self) -> None:
        sizes: dict[str, int] = {}
        for node in sorted(self.alive):
            found = directories(self._client.get(), node, None)
            self.disks[node] = (found.total_bytes, found.usable_bytes)
            for place, replica in found.replicas.items():
                sizes[place.topic] = sizes.get(place.topic, 0) + replica.size
        self.sizes = sizes

    def _ask_space(self) -> None:
        """Of the disks alone, without their logs. A broker that is away keeps the figures of before."""
        for node in sorted(self.alive):
            with contextlib.suppress(KafkaError, ClientFailure):
                found = directories(self._client.get(), node, [])
                self.disks[node] = (found.total_bytes, found.usable_bytes)

    def _ask_groups(self) -> dict[str, dict[str, Any]]:
        found = read_groups(self._group_client.get())
        now = self._wall()
        for name, group in found.items():
            if group["error"] is None:
                self.lag_history.note(now, name, lags(group))
        self.lag_history.keep_only(set(found))
        return found

    # --- views

    def overview(self) -> dict[str, Any]:
        if self.nodes.is_highwater:
            rows = overview.node_rows(self.nodes, self.statuses, overview.fenced_brokers(self.statuses))
            counts = overview.partition_counts(self.statuses)
            is_reachable = any(each is not None for each in self.statuses.values())
        else:
            rows = overview.kafka_node_rows(self.nodes, self.alive, self.topics)
            counts = overview.kafka_partition_counts(self.topics)
            is_reachable = self.error is None and bool(self.nodes.nodes)
        behind = sorted(self.groups.values(), key=lambda each: -int(each.get("lag") or 0))
        return {
            "cluster_id": self.nodes.cluster_id,
            "source": self.source,
            "bootstrap": self.clients.bootstrap,
            "verdict": overview.verdict(rows, counts, is_reachable),
            "nodes": rows,
            "counts": counts,
            "topics": sum(not each.is_internal for each in self.topics),
            "internal": sum(each.is_internal for each in self.topics),
            "rates": {
                "records_in": _rate(self.records_in),
                "bytes_in": _rate(self.bytes_in),
                "bytes_out": _rate(self.bytes_out),
            },
            "latency": self.percentiles.milliseconds(),
            "disk": str(sum(self.sizes.values())),
            "disks": [
                {"node": node, "total": str(total), "free": str(free)} for node, (total, free) in self.disks.items()
            ],
            "groups": [{"group": each["group"], "state": each["state"], "lag": each.get("lag")} for each in behind[:8]],
            "changes": self.timeline.newest(CHANGES_SHOWN),
            "error": self.error,
        }

    @property
    def source(self) -> str:
        return "highwater" if self.nodes.is_highwater else "kafka"

    def topic_list(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "error": self.error,
            "topics": [self._topic_row(each) for each in self.topics],
        }

    def _topic_row(self, topic: MetadataResponseTopic) -> dict[str, Any]:
        name = topic.name or ""
        known = [self.ends.get(TopicPartition(name, part.partition_index)) for part in topic.partitions]
        rate = self.records_in.now.get(name)
        kept = self.retentions.get(name)
        return {
            "name": name,
            "internal": topic.is_internal,
            "partitions": len(topic.partitions),
            "replicas": max((len(part.replica_nodes) for part in topic.partitions), default=0),
            "under_replicated": sum(len(part.isr_nodes) < len(part.replica_nodes) for part in topic.partitions),
            "leaderless": sum(part.leader_id < 0 for part in topic.partitions),
            "records": str(sum(each[1] - each[0] for each in known if each is not None)),
            "size": str(self.sizes[name]) if name in self.sizes else None,
            "rate": None if rate is None else round(rate, 1),
            "retention": None if kept is None else kept._asdict(),
        }

    def topic(self, name: str) -> dict[str, Any]:
        """The partitions as small lanes, and their offsets."""
        found = next((each for each in self.topics if each.name == name), None)
        if found is None:
            return {"topic": name, "exists": False, "known": bool(self.topics), "error": self.error}
        grid = grid_of(name, self.statuses) if self.nodes.is_highwater else None
        return {
            "topic": name,
            "exists": True,
            "source": self.source,
            "row": self._topic_row(found),
            "grid": None if grid is None else [each for each in grid if each["partition"] < GRID_SHOWN],
            "drawn": GRID_SHOWN,
            "partitions": [
                {
                    "partition": part.partition_index,
                    "leader": part.leader_id,
                    "epoch": part.leader_epoch,
                    "replicas": list(part.replica_nodes),
                    "isr": list(part.isr_nodes),
                    "start": _text(self.ends.get(TopicPartition(name, part.partition_index)), 0),
                    "end": _text(self.ends.get(TopicPartition(name, part.partition_index)), 1),
                }
                for part in sorted(found.partitions, key=lambda each: each.partition_index)
            ],
            "error": self.error,
        }

    def lanes(self, topic: str, index: int) -> dict[str, Any] | None:
        """Asked at once, in the caller's thread; None if there is no such partition."""
        known = next((each for each in self.topics if each.name == topic), None)
        if self.nodes.is_highwater:
            nodes = self.nodes.status
            part = _partition(self.topics, topic, index)
            if part is not None:
                nodes = {node: at for node, at in nodes.items() if node in part.replica_nodes} or nodes
            found = lanes_of(topic, index, self._status.partition(nodes, topic, index))
        else:
            client = self._lane_clients.setdefault(threading.get_ident(), OwnClient(self.clients)).get()
            found = kafka_lanes(client, topic, index)
        return None if found is None else {**found, "count": None if known is None else len(known.partitions)}

    def why_no_lanes(self, topic: str, index: int) -> str:
        known = next((each for each in self.topics if each.name == topic), None)
        if known is None:
            return self.error or f"There is no topic {topic}."
        if _partition(self.topics, topic, index) is None:
            count = len(known.partitions)
            return f"{topic} has {count} partitions, from 0 on." if count > 1 else f"{topic} has one partition: 0."
        return f"No node that answers has a replica of {topic}-{index}."

    def group_list(self) -> dict[str, Any]:
        return {
            "error": self.error,
            "groups": [
                {
                    **{name: each.get(name) for name in ("group", "state", "lag", "topics", "error")},
                    "members": len(each["members"]),
                    "history": self.lag_history.of(each["group"])[-120:],
                }
                for each in self.groups.values()
            ],
        }

    def moves(self) -> dict[str, Any]:
        return self.move_reader.view(self.mover.state, self.source)

    def group(self, name: str) -> dict[str, Any]:
        found = self.groups.get(name)
        if found is None:
            return {"group": name, "exists": False, "error": self.error}
        rows = [
            {**row, "history": self.lag_history.of(name, f"{row['topic']}-{row['partition']}")[-60:]}
            for row in found["rows"]
        ]
        return {**found, "rows": rows, "exists": True, "history": self.lag_history.of(name)}


def _leaderships(topics: list[MetadataResponseTopic]) -> Mapping[str, Leadership]:
    return {
        f"{topic.name}-{part.partition_index}": Leadership(part.leader_id, tuple(part.isr_nodes))
        for topic in topics
        for part in topic.partitions
    }


def _partition(topics: list[MetadataResponseTopic], name: str, index: int) -> Any:
    parts = (part for topic in topics if topic.name == name for part in topic.partitions)
    return next((part for part in parts if part.partition_index == index), None)


def _rate(rates: Rates) -> dict[str, Any] | None:
    if rates.total is None:
        return None
    return {"now": round(rates.total, 1), "history": [round(value, 1) for _, value in rates.history][-150:]}


def _text(pair: tuple[int, int] | None, at: int) -> str | None:
    return None if pair is None else str(pair[at])
