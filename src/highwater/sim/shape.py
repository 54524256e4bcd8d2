"""The cluster of a seed: the number of nodes and their roles, the settings of its topics, and the behaviour of its
world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from highwater.model import TopicPartition
from highwater.sim import group_load, table_load
from highwater.sim.knobs import Knobs

SEGMENT_BYTES = "4000"
SHORT_METADATA = {
    "internal.metadata.log.segment.bytes": "1200",
    "metadata.log.max.record.bytes.between.snapshots": "800",
    "metadata.max.retention.bytes": "2500",
}
"""Little of the metadata log is kept: a node that was away for a second needs a snapshot."""
ALL_FLUSHED = {"log.flush.interval.messages": "1"}
"""The topic of offsets has no settings of its own."""
PARTITIONS = 2


@dataclass(frozen=True)
class TopicShape:
    replicas: int
    min_isr: int
    flushed: bool
    unclean: bool = False

    @property
    def name(self) -> str:
        parts = ["flushed" if self.flushed else "cached", f"rf{self.replicas}", f"min{self.min_isr}"]
        return "-".join([*parts, "unclean"] if self.unclean else parts)

    @property
    def configs(self) -> Mapping[str, str]:
        return {
            "min.insync.replicas": str(self.min_isr),
            "internal.segment.bytes": SEGMENT_BYTES,
            "unclean.leader.election.enable": str(self.unclean).lower(),
            **({"flush.messages": "1"} if self.flushed else {}),
        }


@dataclass(frozen=True)
class Leaning:
    """What all clusters of a profile have in common. Their seeds decide the rest."""

    nodes: tuple[int, int, int] | None = None
    """The numbers of brokers, of voters among them, and of separate controllers."""
    flushed: bool | None = None
    """Whether all topics are synced before they are acknowledged, or none is."""
    knobs: Knobs | None = None
    writers: int = 2
    seekers: int = 0
    table: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shape:
    """The first `voters` of the `brokers` are also controllers, unless there are separate `controllers`."""

    brokers: int
    voters: int
    controllers: int
    topics: tuple[TopicShape, ...]
    knobs: Knobs
    settings: Mapping[str, str]
    table: bool = False
    """Whether there is a compacted topic, too."""
    groups: bool = False
    """Whether consumers of a group commit what they have read."""
    writers: int = 2
    """How many producers there are."""
    seekers: int = 0
    """The number of clients that look up offsets by timestamp."""

    @classmethod
    def drawn(cls, plan: Random) -> Shape:
        brokers, voters, controllers = plan.choices(
            ((3, 3, 0), (4, 3, 0), (5, 3, 0), (5, 5, 0), (3, 0, 1), (2, 0, 3)), (10, 3, 1, 1, 3, 2)
        )[0]
        all_flushed = plan.random() < 0.4
        topics = [cls._topic(plan, brokers, flushed=True)]
        if not all_flushed:
            topics.append(cls._topic(plan, brokers, flushed=False))
        knobs = Knobs.swarm(plan) if plan.random() < 0.4 else Knobs()
        knobs = replace(knobs, slow_code=plan.choices((0.0, 0.1, 0.3), (6, 1, 3))[0])
        settings = dict(SHORT_METADATA) if plan.random() < 0.5 else {}
        extra = plan.random()
        table, groups = extra < 0.15, 0.15 <= extra < 0.4
        if table:
            settings |= table_load.SETTINGS
        if groups:
            settings |= group_load.SETTINGS
            settings["offsets.topic.replication.factor"] = str(min(3, brokers))
            if all_flushed:
                settings |= ALL_FLUSHED
        return cls(brokers, voters, controllers, tuple(topics), knobs, settings, table, groups)

    def leaning(self, to: Leaning) -> Shape:
        brokers, voters, controllers = to.nodes or (self.brokers, self.voters, self.controllers)
        topics = [replace(topic, replicas=min(topic.replicas, brokers)) for topic in self.topics]
        if to.flushed is not None:
            topics = [replace(topic, flushed=to.flushed) for topic in topics]
        settings = {**self.settings, **(table_load.SETTINGS if to.table else {}), **to.settings}
        if self.groups:
            settings["offsets.topic.replication.factor"] = str(min(3, brokers))
            if to.flushed:
                settings |= ALL_FLUSHED
        return replace(
            self,
            brokers=brokers,
            voters=voters,
            controllers=controllers,
            topics=tuple(dict.fromkeys(topics)),
            knobs=to.knobs or self.knobs,
            settings=settings,
            table=self.table or to.table,
            writers=to.writers,
            seekers=to.seekers,
        )

    @staticmethod
    def _topic(plan: Random, brokers: int, flushed: bool) -> TopicShape:
        replicas = min(brokers, plan.choices((2, 3), (1, 3))[0])
        unclean = plan.random() < 0.2
        return TopicShape(replicas, plan.choices((1, 2), (2, 1) if unclean else (1, 3))[0], flushed, unclean)

    @property
    def all_flushed(self) -> bool:
        return all(topic.flushed for topic in self.topics)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic.name, index) for topic in self.topics for index in range(PARTITIONS)]

    def may_lose(self, topic: str) -> bool:
        return any(each.unclean for each in self.topics if each.name == topic)

    def text(self) -> str:
        where = f"{self.controllers} apart" if self.controllers else f"{self.voters} of them"
        topics = [topic.name for topic in self.topics] + ["a table"] * self.table + ["a group's offsets"] * self.groups
        return f"brokers {self.brokers}, controllers {where}; topics {', '.join(topics)}"

    def features(self) -> list[str]:
        """What a run of it covers, as names to count."""
        found = [f"{self.brokers + self.controllers} nodes", "apart" if self.controllers else "combined"]
        found += ["a table"] * self.table + ["a group"] * self.groups + ["slow code"] * (self.knobs.slow_code > 0)
        for topic in self.topics:
            found += [f"RF {topic.replicas}", f"min ISR {topic.min_isr}", "flushed" if topic.flushed else "cached"]
            found.append("unclean on" if topic.unclean else "unclean off")
        return list(dict.fromkeys(found))
