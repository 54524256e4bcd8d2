"""A consumer with a rack (KIP-392): leaders here send it to a follower in its rack, and followers here serve it.

`replication.read_replica` decides; here it gets the brokers, the settings and the clock.
"""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.config import RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS
from highwater.model import NodeId, Offset
from highwater.partition.partition import Partition
from highwater.replication.leader import Leader
from highwater.replication.read_replica import may_serve_consumers, preferred_read_replica


class NearbyReads:
    """One for each fetch of such a consumer."""

    __slots__ = ("_broker", "_listener", "_rack")

    def __init__(self, broker: Broker, listener: str, rack: str) -> None:
        self._broker = broker
        self._listener = listener
        self._rack = rack

    def preferred(self, leader: Leader, offset: Offset) -> NodeId | None:
        metadata = self._broker.metadata
        if metadata.config.get(REPLICA_SELECTOR_CLASS) != RACK_AWARE_SELECTOR:
            return None
        racks = metadata.racks_through(self._listener)
        return preferred_read_replica(leader, racks, self._rack, offset, self._broker.in_sync.now())

    def may_read(self, partition: Partition) -> bool:
        broker = self._broker
        image = broker.metadata.partition_image(partition.topic_id, partition.tp.partition)
        is_in_isr = image is not None and broker.node_id in image.isr
        in_sync = broker.in_sync
        return may_serve_consumers(is_in_isr, broker.fetchers.heard_at(partition), in_sync.now(), in_sync.lag_seconds())
