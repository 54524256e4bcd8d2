"""Whether the topics are still those that the stored offsets speak of, and what to read where they are not.

The topic id and the leader epoch distinguish three cases: a topic that is gone, a topic that was created again under
the same name, and a log that lost its end in an unclean election and was then written to again. The readers themselves
notice when retention has overtaken them. Gaps that compaction leaves are no loss and are never reported.
"""

from __future__ import annotations

from collections.abc import Mapping

from highwater.model import TopicPartition
from highwater.pipeline.lookup import Found, Lookup
from highwater.pipeline.loss import Losses, deleted, expired, recreated, truncated
from highwater.pipeline.offsets import Position, Positions
from highwater.pipeline.ranges import NO_EPOCH, OffsetRange


class Continuity:
    """`found` is what the last check saw of the cluster."""

    def __init__(self, lookup: Lookup, losses: Losses) -> None:
        self._lookup = lookup
        self._losses = losses
        self._last: tuple[Positions, Positions] | None = None
        self._cut: set[TopicPartition] = set()
        self.found = Found({}, ())

    def checked(self, stored: Positions) -> Positions:
        """What of `stored` still holds: re-created partitions left out, cut ones moved back to the cut.

        Each loss is reported, which raises it unless losses are allowed. One that is not there keeps its position: a
        look-up may miss it once, and with a position it does not begin again when it is back.
        """
        self.found = self._lookup.partitions(stored.at.keys())
        self._cut.clear()
        sound = self._sound(stored)
        self._cut.update(each for each, position in sound.at.items() if position.offset < stored.at[each].offset)
        self._last = (stored, sound)
        return sound

    def _sound(self, stored: Positions) -> Positions:
        there = dict.fromkeys(self.found.partitions)
        kept: dict[TopicPartition, Position] = {}
        missing: dict[TopicPartition, Position] = {}
        for partition, position in stored.at.items():
            was, now = stored.topic_id(partition.topic), self.found.topic_ids.get(partition.topic, "")
            if was and now and was != now:
                self._losses.report(recreated(partition, position.offset, position.offset, was, now))
            elif partition not in there:
                self._losses.report(deleted(partition, position.offset))
                missing[partition] = position
            else:
                kept[partition] = position
        for partition, cut in self._cuts(kept).items():
            self._losses.report(truncated(partition, cut, kept[partition].offset))
            kept[partition] = Position(cut, kept[partition].epoch)
        ids = {topic: stored.topic_id(topic) for topic, _ in missing}
        return Positions({**ids, **self.found.topic_ids}, kept | missing)

    def _cuts(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        epochs = {partition: position.epoch for partition, position in positions.items() if position.epoch != NO_EPOCH}
        ends = self._lookup.epoch_ends(epochs)
        return {partition: end for partition, end in ends.items() if end < positions[partition].offset}

    def still(self, planned: Positions) -> Positions:
        """What of ends that were planned before can still be read; losses are reported as by `checked`."""
        return self._sound(planned)

    def starts(self, stored: Positions, sound: Positions, latest: Positions) -> dict[TopicPartition, Position]:
        """From where to read each partition of `latest`: those not read before from their beginning."""
        new = self._lookup.earliest(partition for partition in latest.at if partition not in sound.at)
        starts = {}
        for partition, end in latest.at.items():
            start = starts[partition] = new.get(partition) or sound.at[partition]
            if partition in new and partition not in stored.at and start.offset > 0:
                self._losses.report(expired(partition, 0, start.offset))
            if start.epoch == NO_EPOCH and end.offset < start.offset:
                # With an epoch the cut would have been seen, and the end is only that of a leader which is still new.
                self._losses.report(truncated(partition, end.offset, start.offset))
                starts[partition] = end
                self._cut.add(partition)
        return starts

    def missing(self, sound: Positions) -> dict[TopicPartition, Position]:
        """What keeps its position although the last look-up did not find it."""
        there = dict.fromkeys(self.found.partitions)
        return {partition: position for partition, position in sound.at.items() if partition not in there}

    def ranges(self, stored: Positions, ends: Positions) -> list[OffsetRange]:
        """What lies between; `ends` of an earlier run of the query are checked first.

        A log that was cut, and has nothing new beyond the cut, has a range without offsets.
        """
        if self._last is None or self._last[0] != stored:
            sound = self.checked(stored)
            ends = self.still(ends)
        else:
            sound = self._last[1]
        starts = self.starts(stored, sound, ends)
        return [
            OffsetRange(
                partition.topic,
                ends.topic_id(partition.topic),
                partition.partition,
                starts[partition].offset,
                end.offset,
                starts[partition].epoch,
                end.epoch,
                partition in self._cut,
            )
            for partition, end in sorted(ends.at.items())
            if end.offset > starts[partition].offset or partition in self._cut
        ]
