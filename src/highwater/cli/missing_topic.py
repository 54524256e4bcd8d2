"""What a console tool prints if a topic or a partition does not exist: it waits for it, as Apache's tool does."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches

import click

from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.errors import Code, KafkaError

LIKENESS = 0.8
LOOK_SECONDS = 0.5
"""By then every broker knows a topic that was just created."""


def warn_if_missing(client: Client, topic: str, partition: int | None = None) -> None:
    try:
        known = client.retrying(lambda: client.topic(topic), timeout=LOOK_SECONDS, await_topic=True)
    except KafkaError as failed:
        if failed.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            meant = _near(client, topic)
            if meant is not None:
                click.echo(f"There is a topic {meant}: was that one meant?", err=True)
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


def _near(client: Client, topic: str) -> str | None:
    with suppress(KafkaError, ClientFailure):
        known = [each.name for each in client.metadata(None).topics if each.name]
        return next(iter(get_close_matches(topic, known, n=1, cutoff=LIKENESS)), None)
    return None
