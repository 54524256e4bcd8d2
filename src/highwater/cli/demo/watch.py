"""What each broker knows of the orders, asked several times a second."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException

from highwater.cli.demo.orders import PARTITIONS, TOPIC
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.replicas import Look
from highwater.client.client import Client
from highwater.client.offsets import LATEST, list_offsets
from highwater.errors import KafkaError

LOOK_SECONDS = 0.2
ANSWER_SECONDS = 1.0


class BrokerWatch(threading.Thread):
    """One for each broker: a paused one does not delay the looks at the others."""

    def __init__(self, broker: int, http: str, progress: DemoProgress, stopping: threading.Event) -> None:
        super().__init__(name=f"watch-{broker}", daemon=True)
        self._broker = broker
        self._http = http
        self._progress = progress
        self._stopping = stopping

    def run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            before = self._progress.looks.get(self._broker, Look())
            self._progress.looks[self._broker] = self._look() or Look(False, before.rows)

    def _look(self) -> Look | None:
        """None if it does not answer."""
        try:
            with contextlib.closing(HTTPConnection(self._http, timeout=ANSWER_SECONDS)) as connection:
                connection.request("GET", "/status")
                status = json.loads(connection.getresponse().read())
            rows = {row["partition"]: row for row in status["partitions"] if row["topic"] == TOPIC}
        except (OSError, HTTPException, ValueError, KeyError):
            return None
        return Look(True, rows)


class Watch:
    def __init__(self, brokers: Mapping[int, str], progress: DemoProgress) -> None:
        """The address of each broker's status."""
        self._stopping = threading.Event()
        self._threads = [BrokerWatch(id, http, progress, self._stopping) for id, http in brokers.items()]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(seconds)


def end_offsets(client: Client) -> dict[int, int]:
    """The high watermark of each partition whose leader answers."""
    found = list_offsets(client, dict.fromkeys(PARTITIONS, LATEST))
    return {each.partition: at.offset for each, at in found.items() if not isinstance(at, KafkaError)}
