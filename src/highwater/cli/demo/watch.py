"""The leaders, the ISRs and the high watermarks, from any broker that answers."""

from __future__ import annotations

import threading

from highwater.cli.demo.orders import PARTITIONS, TOPIC
from highwater.cli.demo.progress import DemoProgress, PartitionState
from highwater.client.client import Client
from highwater.client.descriptions import PartitionDescription, describe_topics
from highwater.client.failures import ClientFailure
from highwater.client.offsets import LATEST, list_offsets
from highwater.errors import KafkaError

LOOK_SECONDS = 0.5


class Watch(threading.Thread):
    def __init__(self, bootstrap: str, progress: DemoProgress) -> None:
        super().__init__(name="watch", daemon=True)
        self._servers = bootstrap
        self._progress = progress
        self._stopping = threading.Event()

    def run(self) -> None:
        with Client(self._servers, client_id="demo-watch", timeout=5, request_timeout=2) as client:
            while not self._stopping.wait(LOOK_SECONDS):
                try:
                    self._look(client)
                except (KafkaError, ClientFailure):
                    # No broker knows it just now; the next look will.
                    continue

    def stop(self, seconds: float) -> None:
        self._stopping.set()
        self.join(seconds)

    def _look(self, client: Client) -> None:
        (topic,) = describe_topics(client, [TOPIC])
        described = sorted(topic.partitions, key=lambda each: each.partition_index)
        # The leaders first: without a leader there is no answer about offsets, and the last ones stay on the screen.
        known = {at: each.high_watermark for at, each in enumerate(self._progress.partitions)}
        self._show(described, known)
        self._show(described, known | end_offsets(client))

    def _show(self, described: list[PartitionDescription], high_watermarks: dict[int, int]) -> None:
        self._progress.partitions = tuple(
            PartitionState(each.leader_id, tuple(sorted(each.isr_nodes)), high_watermarks.get(each.partition_index, 0))
            for each in described
        )


def end_offsets(client: Client) -> dict[int, int]:
    """The high watermark of each partition whose leader answers."""
    found = list_offsets(client, dict.fromkeys(PARTITIONS, LATEST))
    return {each.partition: at.offset for each, at in found.items() if not isinstance(at, KafkaError)}
