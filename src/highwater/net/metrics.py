"""Metrics for Prometheus: families of samples, the metrics of the network, and the page with all of them.

The names are those of dashboards for Kafka's jmx_exporter and for kafka_exporter; docs/monitoring.md lists them.
Counters are plain integers where the events happen; everything else is computed on a scrape. The page is written in
parts: a family, or some hundred rows of it. The event loop serves clients between two parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from highwater.net.http import Part, Wait
from highwater.net.server import Server
from highwater.net.stats import LoopLag

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ROWS_PER_PART = 300
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Rows = Iterable[tuple[str, float]]
"""(labels as `labels` makes them, value)"""


class Family(NamedTuple):
    """All samples with one name."""

    name: str
    kind: str
    text: str
    rows: Rows

    def parts(self) -> Iterator[bytes]:
        written = f"# HELP {self.name} {self.text}\n# TYPE {self.name} {self.kind}\n"
        rows = iter(self.rows)
        while some := list(islice(rows, ROWS_PER_PART)):
            written += "".join([f"{self.name}{labels} {value}\n" for labels, value in some])
            yield written.encode()
            written = ""
        if written:
            yield written.encode()


class Collector(Protocol):
    def collect(self) -> Iterator[Family | Wait]:
        """Yields families. A collector that has to ask other nodes first yields a `Wait` before them."""
        ...


def exposition(collectors: Iterable[Collector]) -> Iterator[Part]:
    """The page, in Prometheus' text format 0.0.4."""
    for collector in collectors:
        for item in collector.collect():
            if isinstance(item, Family):
                yield from item.parts()
            else:
                yield item


def gauge(name: str, text: str, value: float | Rows) -> Family:
    return Family(name, "gauge", text, _rows(value))


def counter(name: str, text: str, value: float | Rows) -> Family:
    return Family(f"{name}_total", "counter", text, _rows(value))


def labels(**values: object) -> str:
    return "{" + ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in values.items()) + "}"


def _rows(value: float | Rows) -> Rows:
    return [("", value)] if isinstance(value, int | float) else value


class NetMetrics:
    """The metrics of a node's server and its event loop."""

    def __init__(self, server: Server, lag: LoopLag) -> None:
        self._server = server
        self._lag = lag

    def collect(self) -> Iterator[Family]:
        stats = self._server.stats
        requests = [(labels(request=self._api_name(key)), count) for key, count in sorted(stats.requests.items())]
        yield counter("kafka_network_requestmetrics_requests", "Requests by API.", requests)
        server = "kafka_server_socket_server_metrics_"
        yield gauge(server + "connection_count", "Open connections.", stats.connections)
        yield counter(server + "connection_creation", "Connections that were taken.", stats.accepted)
        yield counter(server + "incoming_byte", "Bytes received.", stats.bytes_in)
        yield counter(server + "outgoing_byte", "Bytes sent.", stats.bytes_out)
        yield gauge("highwater_loop_lag_max_seconds", "The longest turn of the loop so far.", self._lag.max)
        unexpected = [(labels(boundary=kind), count) for kind, count in self._server.world.failures.counts.items()]
        yield counter("highwater_unexpected_errors", "Mistakes in the program, by where they were stopped.", unexpected)

    def _api_name(self, key: int) -> str:
        found = next((entry for registry in self._server.registries if (entry := registry.find(key))), None)
        return str(key) if found is None else found.api.request.__name__.removesuffix("Request")
