"""Checks a pipeline against its clusters before Spark is started, so that no mistake costs a JVM."""

from __future__ import annotations

from highwater.client.client import Client
from highwater.client.security import Security
from highwater.pipeline.checkpoint import Checkpoint
from highwater.pipeline.dead_letters import find_topic
from highwater.pipeline.definition import Definition
from highwater.pipeline.lookup import Lookup
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.selection import BadOption, selects

REQUEST_SECONDS = 15.0


def check_clusters(definition: Definition) -> None:
    """The topics of the pipeline exist, and it reads none that it writes to.

    Raises BadOption if they do not, and ClientFailure or KafkaError if no broker answers.
    """
    with _client(definition.bootstrap_servers, definition.security) as source:
        source.refresh([])
        _check_source(definition)
        if definition.dead_letter_topic is not None:
            find_topic(source, definition.dead_letter_topic)
        if definition.sink_topic is None:
            return
        with _client(definition.sink_servers, definition.sink_security) as sink:
            find_topic(sink, definition.sink_topic, "the rows go to")
            _check_no_loop(definition, definition.sink_topic, source, sink)


def _check_source(definition: Definition) -> None:
    """Of a query that begins. One that goes on may do without a topic that is gone (failOnDataLoss=false)."""
    checkpoint = Checkpoint.at(definition.checkpoint)
    if checkpoint is None or checkpoint.is_empty():
        lookup = Lookup(SourceOptions.parse(definition.source, streaming=True))
        try:
            lookup.existing()
        finally:
            lookup.close()


def _check_no_loop(definition: Definition, topic: str, source: Client, sink: Client) -> None:
    selection = SourceOptions.parse(definition.source, streaming=True).selection
    is_one = source.view.cluster_id is not None and source.view.cluster_id == sink.view.cluster_id
    if is_one and selects(selection, topic):
        raise BadOption(
            f"sink.topic is {topic!r}, which {selection} selects: {definition.sink_servers} and "
            f"{definition.bootstrap_servers} are one cluster, and the pipeline would read what it wrote"
        )


def _client(servers: str, security: Security) -> Client:
    return Client(
        servers,
        client_id="highwater-pipeline",
        timeout=REQUEST_SECONDS,
        request_timeout=REQUEST_SECONDS,
        security=security,
    )
