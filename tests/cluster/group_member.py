"""A process that is one member of a group, made with one of the clients, and the handle by which a test holds it.

It says on its output, in JSON, one line each: what it was assigned, what was taken from it, and which records it has
processed and then committed. The end of its input is its order to leave; to kill it is up to the test.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener as AioListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from confluent_kafka import Consumer, KafkaError

CLIENTS = ("confluent", "kafka-python", "aiokafka")
SESSION_MS = 2000
HEARTBEAT_MS = 300
POLL_SECONDS = 0.2


class Member:
    """As a context manager: the end kills it."""

    def __init__(
        self, client: str, bootstrap: str, group: str, topic: str, assignor: str = "range", session_ms: int = SESSION_MS
    ) -> None:
        self.client = client
        self.assigned: frozenset[int] = frozenset()
        self.processed: list[tuple[int, int]] = []
        self.revoked = 0
        """How many times partitions were taken from it."""
        arguments = (client, bootstrap, group, topic, assignor, str(session_ms))
        command = [sys.executable, "-m", "tests.cluster.group_member", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "record" in said:
                self.processed.append(tuple(said["record"]))
            else:
                held = frozenset(said["holds"])
                self.revoked += bool(self.assigned - held)
                self.assigned = held

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._ended()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._ended()

    def _ended(self) -> None:
        self._listening.join()
        self.assigned = frozenset()

    def __enter__(self) -> Member:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


# The process


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


class _Held:
    """What this member holds, said at each change. Eager and cooperative assignors both are followed this way."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()

    def add(self, partitions: Iterable[int]) -> None:
        self.partitions |= set(partitions)
        _say(holds=sorted(self.partitions))

    def drop(self, partitions: Iterable[int]) -> None:
        self.partitions -= set(partitions)
        _say(holds=sorted(self.partitions))


def _until_told(told: threading.Event) -> Iterator[None]:
    while not told.is_set():
        yield


def _confluent(bootstrap: str, group: str, topic: str, assignor: str, session_ms: int, told: threading.Event) -> None:
    held = _Held()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": assignor,
            "log_level": 0,
        }
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _, parts: held.add(part.partition for part in parts),
        on_revoke=lambda _, parts: held.drop(part.partition for part in parts),
        on_lost=lambda _, parts: held.drop(part.partition for part in parts),
    )
    for _ in _until_told(told):
        message = consumer.poll(POLL_SECONDS)
        if message is None:
            continue
        failed = message.error()
        if failed is not None:
            assert failed.retriable() or failed.code() == KafkaError._ALL_BROKERS_DOWN, failed
            continue
        if _commits(lambda message=message: consumer.commit(message, asynchronous=False)):  # type: ignore[misc]
            _say(record=[message.partition(), message.offset()])
    consumer.close()


def _commits(commit: Any) -> bool:
    """A generation may end, or the coordinator, between processing and committing: the record comes again then."""
    try:
        commit()
    except Exception as failed:  # noqa: BLE001 - each client has its own errors, and all of them mean this
        print(f"not committed: {failed}", file=sys.stderr)
        return False
    return True


def _kafka_python(
    bootstrap: str, group: str, topic: str, assignor: str, session_ms: int, told: threading.Event
) -> None:
    held = _Held()

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            held.add(part.partition for part in assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            held.drop(part.partition for part in revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            held.drop(part.partition for part in lost)

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[_assignor_of_kafka_python(assignor)],
    )
    consumer.subscribe([topic], listener=Listener())
    for _ in _until_told(told):
        for messages in consumer.poll(int(1000 * POLL_SECONDS)).values():
            if _commits(consumer.commit):
                for message in messages:
                    _say(record=[message.partition, message.offset])
    consumer.close()


def _assignor_of_kafka_python(name: str) -> Any:
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    if name == "range":
        return RangePartitionAssignor
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    return CooperativeStickyAssignor


async def _aiokafka(bootstrap: str, group: str, topic: str, session_ms: int, told: threading.Event) -> None:
    held = _Held()

    class Listener(AioListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            held.add(part.partition for part in assigned)

        async def on_partitions_revoked(self, revoked: Any) -> None:
            held.drop(part.partition for part in revoked)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[AioRange],
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    for _ in _until_told(told):
        for messages in (await consumer.getmany(timeout_ms=int(1000 * POLL_SECONDS))).values():
            try:
                await consumer.commit()
            except Exception as failed:  # noqa: BLE001 - as in _commits
                print(f"not committed: {failed}", file=sys.stderr)
                continue
            for message in messages:
                _say(record=[message.partition, message.offset])
    await consumer.stop()


def main(client: str, bootstrap: str, group: str, topic: str, assignor: str, session: str) -> None:
    told = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        told.set()

    threading.Thread(target=listen, daemon=True).start()
    if client == "confluent":
        _confluent(bootstrap, group, topic, assignor, int(session), told)
    elif client == "kafka-python":
        _kafka_python(bootstrap, group, topic, assignor, int(session), told)
    else:
        asyncio.run(_aiokafka(bootstrap, group, topic, int(session), told))


if __name__ == "__main__":
    main(*sys.argv[1:])
