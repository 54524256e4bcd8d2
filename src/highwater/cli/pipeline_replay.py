"""`highwater pipeline replay`: dead letters once more."""

from __future__ import annotations

from pathlib import Path

import click

from highwater.cli.pipeline_file import file_argument, loaded
from highwater.cli.pipeline_position import aligned
from highwater.cli.tool import fail
from highwater.client.failures import ClientFailure
from highwater.errors import KafkaError

MOST_REASONS = 20


@click.command("replay")
@file_argument
@click.option("--dry-run", is_flag=True, help="Only show what would be sent.")
def replay(file: Path, dry_run: bool) -> None:
    """Send the dead letters of FILE's pipeline to the topics that they came from, as they were.

    Do it when the pipeline can read them: its schema was changed, or the mistake was mended elsewhere. Those that still
    do not fit become dead letters again. Each letter is sent once; after a crash some may be sent twice.
    """
    definition = loaded(file)
    from highwater.pipeline.loss import DataLoss
    from highwater.pipeline.replaying import replay as send

    try:
        found = send(definition, dry_run)
    except (ValueError, KafkaError, ClientFailure, DataLoss) as error:
        fail(str(error))
    if found.by_reason:
        reasons = [(str(count), reason) for reason, count in found.by_reason.most_common(MOST_REASONS)]
        for line in aligned([("LETTERS", "REASON"), *reasons]):
            click.echo(line)
    if found.without_value:
        click.echo(f"{found.without_value} have no value, since it was too large: read it at the place that they name")
    if found.foreign:
        click.echo(f"{found.foreign} are no letters of this pipeline's topics")
    click.echo(f"{found.sent} {'would be sent' if dry_run else 'sent'} to the topics that they came from")
