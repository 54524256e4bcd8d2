"""A query's progress as a consumer group's offsets, so that lag tools see it.

Spark reports a finished batch to its source late: when the next batch has data, so never for the last one. But when
Spark asks for new offsets, it names the offset from which on they are new. All records before that offset are in its
commit log by then, so this module commits that offset. It is never ahead of Spark. It is behind Spark only between the
end of a batch and the next question. A query that is stopped between the two catches up when it is started again.
"""

from __future__ import annotations

import logging

from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.groups import Groups
from highwater.errors import KafkaError, is_retriable
from highwater.model import TopicPartition
from highwater.pipeline.offsets import Positions
from highwater.pipeline.reading import Reading

_log = logging.getLogger(__name__)


COMMIT_SECONDS = 5.0
"""A batch must not wait long for a coordinator that is away: lag is shown a little late then."""


class GroupProgress:
    """Remembers what the group has, and commits what is new."""

    def __init__(self, reading: Reading, group_id: str) -> None:
        self._client = Client(
            reading.bootstrap_servers,
            client_id=reading.client_id,
            timeout=COMMIT_SECONDS,
            request_timeout=min(COMMIT_SECONDS, reading.request_timeout_seconds),
            security=reading.security,
        )
        self._groups = Groups(self._client)
        self._group_id = group_id
        self._committed: dict[TopicPartition, int] = {}
        self._warned = ""

    def close(self) -> None:
        self._client.close()

    def commit(self, done: Positions) -> None:
        """A failed commit to the group never stops the batch of the query: the next call makes up for it.

        A group with members refuses commits of others, for example while a consumer of that group reads the topic. The
        query's own progress is in Spark's checkpoint.
        """
        offsets = {partition: position.offset for partition, position in done.at.items()}
        news = {each: offset for each, offset in offsets.items() if self._committed.get(each) != offset}
        if not news:
            return
        try:
            self._groups.commit(self._group_id, news)
        except (ClientFailure, KafkaError) as error:
            self._warn(error)
        else:
            self._committed |= news
            if self._warned:
                self._warned = ""
                _log.warning("group %s takes the progress of this query again", self._group_id)

    def _warn(self, error: Exception) -> None:
        """Once, until it is over or becomes something else: a query commits with every batch."""
        if self._warned == str(error):
            return
        self._warned = str(error)
        is_refusal = isinstance(error, KafkaError) and not is_retriable(error.code)
        _log.warning(
            "group %s does not take the progress of this query, so lag tools show it as behind: %s%s",
            self._group_id,
            error,
            "; kafka.group.id should name a group that no running consumer is a member of" if is_refusal else "",
        )
