"""The names of topics, for a shell that completes a line. It gets none where no cluster answers at once."""

from __future__ import annotations

from typing import Final

import click

SECONDS: Final = 1.0


def topic_names(context: click.Context, parameter: click.Parameter | None, typed: str) -> list[str]:
    """Internal topics only if the name begins as theirs."""
    from highwater.cli.bootstrap import DATA_DIR, local_cluster
    from highwater.client.admin import Admin
    from highwater.client.client import Client
    from highwater.client.failures import ClientFailure
    from highwater.errors import KafkaError

    servers = context.params.get("bootstrap_server") or local_cluster(DATA_DIR)
    if not isinstance(servers, str):
        return []
    try:
        with Client(servers, timeout=SECONDS, request_timeout=SECONDS) as client:
            names = Admin(client).list_topics(internal=typed.startswith("_"))
    except (KafkaError, ClientFailure, ValueError, OSError):
        return []
    return sorted(name for name in names if name.startswith(typed))
