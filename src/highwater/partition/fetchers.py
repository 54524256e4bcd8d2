"""All fetchers of a broker: one for each broker that it follows."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model import Endpoint, NodeId
from highwater.partition.fetcher import Fetcher
from highwater.partition.partition import Partition
from highwater.replication.follower import Ends


class Fetchers:
    """A partition never has two fetchers: the old one stops before the next one begins."""

    def __init__(self, new_fetcher: Callable[[NodeId, Endpoint], Fetcher]) -> None:
        """`new_fetcher` makes a fetcher for a leader at an address."""
        self._new_fetcher = new_fetcher
        self._by_leader: dict[NodeId, Fetcher] = {}
        self._of: dict[Partition, Fetcher] = {}

    def follow(self, partition: Partition, leader: NodeId, at: Endpoint) -> None:
        fetcher = self._by_leader.get(leader)
        if fetcher is None or fetcher.endpoint != at:
            moved = [each for each, of in self._of.items() if of is fetcher]
            if fetcher is not None:
                fetcher.close()
            fetcher = self._by_leader[leader] = self._new_fetcher(leader, at)
            for each in moved:
                self._of[each] = fetcher
                if each is not partition:
                    fetcher.follow(each)
        current = self._of.get(partition)
        if current is fetcher and fetcher.follows(partition):
            return
        if current is not None and current is not fetcher:
            current.unfollow(partition.topic_id, partition.tp.partition)
        self._of[partition] = fetcher
        fetcher.follow(partition)

    def unfollow(self, partition: Partition) -> None:
        fetcher = self._of.pop(partition, None)
        if fetcher is None:
            return
        fetcher.unfollow(partition.topic_id, partition.tp.partition)
        if not len(fetcher):
            fetcher.close()
            self._by_leader.pop(fetcher.leader, None)

    def registered(self) -> None:
        """The broker knows its own broker epoch now. Without it, leaders could not distinguish its incarnations."""
        for fetcher in self._by_leader.values():
            fetcher.registered()

    def follows(self, partition: Partition) -> bool:
        return partition in self._of

    def heard_at(self, partition: Partition) -> float | None:
        """When the leader last answered a fetch; None if the partition is not followed."""
        fetcher = self._of.get(partition)
        return None if fetcher is None else fetcher.heard_at

    def ask_for_ends(self, partition: Partition, done: Callable[[Ends | None], None]) -> None:
        """As `Fetcher.ask_for_ends`."""
        fetcher = self._of.get(partition)
        if fetcher is None:
            done(None)
        else:
            fetcher.ask_for_ends(partition, done)

    def restate(self, partition: Partition) -> None:
        """Report the log start to the leader with the next fetch."""
        fetcher = self._of.get(partition)
        if fetcher is not None:
            fetcher.restate(partition)

    def following(self, partition: Partition) -> int:
        """The number of fetchers that follow the partition: one or none."""
        return sum(1 for fetcher in self._by_leader.values() if fetcher.feeds(partition))

    def close(self) -> None:
        for fetcher in self._by_leader.values():
            fetcher.close()
        self._by_leader.clear()
        self._of.clear()
