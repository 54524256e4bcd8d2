"""Records that readers may miss because an operator deleted them. This is noted before the request."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.model import TopicPartition


@dataclass
class Permitted:
    """What clients may miss in the load's partitions because of an operator's requests."""

    deleted: dict[TopicPartition, int] = field(default_factory=dict)
    """Records below these offsets: they were asked to be deleted."""
    retained: set[str] = field(default_factory=set)
    """Topics that keep their last bytes alone."""
    given_up: set[str] = field(default_factory=set)
    """Topics that an unclean election was asked for."""

    def start(self, partition: TopicPartition, log_start: int) -> bool:
        """Whether a log may begin there."""
        return partition.topic in self.retained or log_start <= self.deleted.get(partition, 0)
