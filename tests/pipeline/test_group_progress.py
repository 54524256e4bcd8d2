"""Progress in a consumer group is for those who look: what the group says of it never stops a query."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import Consumer

from highwater.client.client import Client
from highwater.client.groups import Groups
from highwater.cluster import Cluster
from highwater.model import TopicPartition
from highwater.pipeline.offsets import Position, Positions
from highwater.pipeline.progress import GroupProgress
from highwater.pipeline.reading import Reading

pytestmark = pytest.mark.slow

PARTITION = TopicPartition("watched", 0)


def at(offset: int) -> Positions:
    return Positions({}, {PARTITION: Position(offset)})


def test_a_consumer_in_the_group_of_a_query_is_logged_once_and_stops_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("watched")
    progress = GroupProgress(Reading(cluster.bootstrap_servers), "watched-lake")
    progress.commit(at(1))
    onlooker = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "watched-lake"})
    onlooker.subscribe(["watched"])
    with Client(cluster.bootstrap_servers) as client, caplog.at_level(logging.WARNING):
        groups = Groups(client)

        def has_members() -> bool:
            onlooker.poll(0.05)
            return bool(onlooker.assignment())

        cluster.wait_until(has_members, 60, "the onlooker is a member")
        for offset in (2, 3, 4):
            progress.commit(at(offset))
        assert groups.committed("watched-lake")[PARTITION].offset == 1
        [warning] = [record.getMessage() for record in caplog.records]
        assert "does not take the progress of this query" in warning
        assert "a group that no running consumer is a member of" in warning
        onlooker.close()
        progress.commit(at(5))
        assert groups.committed("watched-lake")[PARTITION].offset == 5
        assert caplog.records[-1].getMessage() == "group watched-lake takes the progress of this query again"
    progress.close()
