"""A consumer of kafka-python that reads all partitions of a topic while they are written, in a process of its own.

It is one of its own since kafka-python leaves the sockets of attempts to connect that failed to the garbage collector:
in the process of the tests, they would be an error of whichever test runs when they are collected.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

import kafka

from highwater.audit import Read
from highwater.model import TopicPartition
from tests.apache import bound_to_this_process
from tests.cluster.namespaces import Machine


class LiveReader:
    """What the process on this machine has read. The end of the context ends it."""

    def __init__(self, machine: Machine, bootstrap: str, topic: str, partitions: int) -> None:
        self.reads: list[Read] = []
        self.positions = dict.fromkeys(range(partitions), 0)
        self._topic = topic
        command = machine.command(sys.executable, "-m", __name__, bootstrap, topic, str(partitions))
        self._process = subprocess.Popen(bound_to_this_process(command), stdout=subprocess.PIPE, text=True)
        self._listening = threading.Thread(target=self._listen, name="live reader", daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            partition, offset, value = json.loads(line)
            self.reads.append(Read(TopicPartition(self._topic, partition), offset, base64.b64decode(value)))
            self.positions[partition] = offset + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._listening.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def read_on(bootstrap: str, topic: str, partitions: int) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=3000,
        heartbeat_interval_ms=1000,
        request_timeout_ms=4000,
        metadata_max_age_ms=1000,
    )
    consumer.assign([kafka.TopicPartition(topic, index) for index in range(partitions)])
    while True:
        for at, messages in consumer.poll(timeout_ms=200).items():
            for each in messages:
                print(json.dumps([at.partition, each.offset, base64.b64encode(each.value).decode()]))
        sys.stdout.flush()


if __name__ == "__main__":
    bootstrap, topic, partitions = sys.argv[1:]
    read_on(bootstrap, topic, int(partitions))
