"""Records that readers may miss because an operator deleted them. This is noted before the request."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.model import TopicPartition


@dataclass
class Permitted:
    """The records of the load's partitions that clients may miss because of an operator's requests."""

    deleted: dict[TopicPartition, int] = field(default_factory=dict)
    """Requests asked for the deletion of the records below these offsets."""
    retained: set[str] = field(default_factory=set)
    """Topics that keep only their last bytes."""
    given_up: set[str] = field(default_factory=set)
    """Topics for which an unclean election was requested."""

    def start(self, partition: TopicPartition, log_start: int) -> bool:
        """Whether a log may begin there."""
        return partition.topic in self.retained or log_start <= self.deleted.get(partition, 0)
