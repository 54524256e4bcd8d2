"""The parts of a broker: what every handler works with."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.broker.applied_metadata import AppliedMetadata
from highwater.broker.auto_creation import AutoCreation
from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.departed import Departed
from highwater.broker.directories import ReplicaDirectories
from highwater.broker.doubts import Doubts
from highwater.broker.follower_fetches import FollowerFetches
from highwater.broker.groups import GroupCoordinator
from highwater.broker.latency import Latencies
from highwater.broker.lifecycle import Lifecycle
from highwater.broker.producer_ids import ProducerIds
from highwater.broker.throttles import Throttles
from highwater.broker.topic_rows import TopicRows
from highwater.log.compaction.cleaner import Cleaner
from highwater.log.store import LogStore
from highwater.model import NodeId
from highwater.net.deadlines import DeadlineQueue
from highwater.partition.fetch_session import FetchSessions
from highwater.partition.fetchers import Fetchers
from highwater.partition.hosted import Hosted
from highwater.partition.in_sync import InSync
from highwater.world import World


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Broker:
    """`broker.assembly` makes the parts, each after those that it needs."""

    world: World
    node_id: NodeId
    cluster_id: str
    metadata: AppliedMetadata
    deadlines: DeadlineQueue
    controller: ControllerChannel
    lifecycle: Lifecycle
    hosted: Hosted
    groups: GroupCoordinator
    directories: ReplicaDirectories
    store: LogStore
    cleaner: Cleaner
    in_sync: InSync
    doubts: Doubts
    departed: Departed
    fetchers: Fetchers
    throttles: Throttles
    sessions: FetchSessions
    follower_fetches: FollowerFetches
    latencies: Latencies
    producer_ids: ProducerIds
    auto_creation: AutoCreation
    topic_rows: TopicRows
