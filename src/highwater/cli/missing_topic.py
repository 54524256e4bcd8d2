"""What a console tool prints if a topic or a partition does not exist: it waits for it, as Apache's tool does."""

from __future__ import annotations

import click

from highwater.client.client import Client
from highwater.errors import Code, KafkaError

LOOK_SECONDS = 0.5
"""By then every broker knows a topic that was just created."""


def warn_if_missing(client: Client, topic: str, partition: int | None = None) -> None:
    try:
        known = client.retrying(lambda: client.topic(topic), timeout=LOOK_SECONDS, await_topic=True)
    except KafkaError as failed:
        if failed.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            then = "it is created, if the cluster lets clients do that (auto.create.topics.enable)"
            complaint = f"Topic {topic} does not exist (UNKNOWN_TOPIC_OR_PARTITION): "
            click.echo(
                complaint + (then if partition is None else f"partition {partition} of it is waited for"), err=True
            )
        return
    if partition is not None and partition not in known.partitions:
        count = len(known.partitions)
        there = "1 partition: 0" if count == 1 else f"{count} partitions: 0-{count - 1}"
        click.echo(
            f"Topic {topic} has {there} (UNKNOWN_TOPIC_OR_PARTITION): partition {partition} is waited for", err=True
        )
        client.forget(topic)
