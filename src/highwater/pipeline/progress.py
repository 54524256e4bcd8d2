"""A query's progress as a consumer group's offsets, so that lag tools see it.

Spark tells a source of a finished batch late: when the next batch has data, so never for the last one. But whenever it
asks what is new, it says from where on, and by then all before that is in its commit log. That is what is committed
here: never ahead of Spark, and behind it only from the end of a batch to the next question. A query that is stopped
between the two catches up when it is started again.
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
        )
        self._groups = Groups(self._client)
        self._group_id = group_id
        self._committed: dict[TopicPartition, int] = {}
        self._told = ""

    def close(self) -> None:
        self._client.close()

    def commit(self, done: Positions) -> None:
        """What keeps a commit from its group never keeps the query from its batch: the next call makes up for it.

        A group with members refuses commits of others, for instance while somebody looks at the topic with a consumer
        of that group. The query's own progress is in Spark's checkpoint.
        """
        offsets = {partition: position.offset for partition, position in done.at.items()}
        news = {each: offset for each, offset in offsets.items() if self._committed.get(each) != offset}
        if not news:
            return
        try:
            self._groups.commit(self._group_id, news)
        except (ClientFailure, KafkaError) as error:
            self._tell(error)
        else:
            self._committed |= news
            if self._told:
                self._told = ""
                _log.warning("group %s takes the progress of this query again", self._group_id)

    def _tell(self, error: Exception) -> None:
        """Once, until it is over or becomes something else: a query commits with every batch."""
        if self._told == str(error):
            return
        self._told = str(error)
        is_refusal = isinstance(error, KafkaError) and not is_retriable(error.code)
        _log.warning(
            "group %s does not take the progress of this query, so that lag tools see it behind: %s%s",
            self._group_id,
            error,
            "; kafka.group.id should name a group that no running consumer is a member of" if is_refusal else "",
        )
