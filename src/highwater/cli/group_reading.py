"""Reads records as a member of a group: from the group's offsets, and commits them as they are printed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from highwater.client.client import Client
from highwater.client.consumer import Consumer
from highwater.client.failures import ClientFailure
from highwater.client.group_member import GroupMember
from highwater.errors import KafkaError
from highwater.kernel import Record
from highwater.model import TopicPartition

COMMIT_SECONDS = 5.0
POLL_SECONDS = 0.5


class GroupReading:
    """A record counts as read when the next one is asked for."""

    def __init__(
        self,
        client: Client,
        consumer: Consumer,
        group_id: str,
        topics: Callable[[], list[str]],
        reset: int,
        commits: bool,
    ) -> None:
        self._consumer = consumer
        self._member = GroupMember(client, group_id, topics)
        self._reset = reset
        self._commits = commits
        self._read: dict[TopicPartition, int] = {}
        """Not committed yet."""
        self._committed_at = time.monotonic()
        self._stopping = False
        self.joining_seconds = 0.0
        """The time that was spent on joining the group, over all rebalances."""

    @contextmanager
    def stopped_by_interrupt(self) -> Iterator[None]:
        """Ctrl-C ends `records` between two requests. Within a request the connection could not be used any more, so
        offsets could not be committed and the group could not be left. A second Ctrl-C ends it at once."""

        def stop(number: int, frame: FrameType | None) -> None:
            self._stopping = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def records(
        self, timeout_ms: int | None, before_wait: Callable[[], None]
    ) -> Iterator[tuple[TopicPartition, str, Record]]:
        """Yields records as they come, until none has come for `timeout_ms`."""
        last = time.monotonic()
        while not self._stopping:
            before_wait()
            begun = time.monotonic()
            if self._member.keep_up(self._try_to_commit):
                if self._stopping:
                    return
                self._take_up()
                last = time.monotonic()
                self.joining_seconds += last - begun
            wait = POLL_SECONDS if timeout_ms is None else min(POLL_SECONDS, timeout_ms / 1000)
            for fetched in self._consumer.poll(wait):
                for header, records in fetched.batches():
                    timestamp_type = "LogAppendTime" if header.is_log_append_time else "CreateTime"
                    for record in records:
                        if self._stopping:
                            return
                        yield fetched.partition, timestamp_type, record
                        self._read[fetched.partition] = record.offset + 1
                        last = time.monotonic()
            if time.monotonic() - self._committed_at > COMMIT_SECONDS:
                self._try_to_commit()
            if timeout_ms is not None and time.monotonic() - last > timeout_ms / 1000:
                return

    def took(self, partition: TopicPartition, offset: int) -> None:
        """The last record that was handed out has been printed, and no other one is asked for."""
        self._read[partition] = offset + 1

    def close(self) -> None:
        self._try_to_commit()
        self._member.leave()

    def _take_up(self) -> None:
        self._read.clear()
        known = self._member.committed()
        held = self._member.assigned
        where = {place: known[place].offset for place in held if place in known}
        self._consumer.assign(where)
        new = [place for place in held if place not in known]
        self._consumer.add(dict.fromkeys(new, self._reset))
        # The start position is committed, too, as Kafka's consumer does. Otherwise the next consumer would skip records
        # that come to an empty partition while no consumer reads.
        self._read.update((place, self._consumer.positions[place]) for place in new)

    def _try_to_commit(self) -> None:
        """Like the automatic commit of Kafka's consumer: what cannot be committed now may be committed later, or comes
        again."""
        self._committed_at = time.monotonic()
        if not self._commits or not self._read:
            return
        try:
            self._member.commit(self._read)
        except (KafkaError, ClientFailure):
            return
        self._read.clear()
