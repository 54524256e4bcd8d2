"""The process of members of a group, made with one of the clients; each has a thread of its own.

It says on its output, in JSON, one line each: what a member holds, in which generation and under which id, whenever
that changes; the records that it has processed, and then that they are committed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

HEARTBEAT_MS = 300
POLL_SECONDS = 0.2
AT_ONCE = 100
_GENERATION_AT = len("CGMDv2:")
_saying = threading.Lock()


class Part(NamedTuple):
    """What a member is to be."""

    number: int
    bootstrap: str
    group: str
    topic: str
    assignor: str
    session_ms: int
    published: threading.Event


def _say(**what: object) -> None:
    with _saying:
        print(json.dumps(what), flush=True)


class _Held:
    """What this member holds, said at each change. Eager and cooperative assignors both are followed this way."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._partitions: set[int] = set()
        self.due: list[tuple[int, int]] = []
        """Records that are processed and not committed. A generation may end, or the coordinator, in between: then they
        are committed with those that follow, or come again to the member that has their partition next."""

    def take(self, records: list[tuple[int, int]]) -> None:
        if records:
            _say(seen=records)
            self.due += (record for record in records if record[0] in self._partitions)

    def committed(self) -> None:
        _say(committed=self.due)
        self.due = []

    def add(self, partitions: Iterable[int], generation: int, member_id: str) -> None:
        self._partitions |= set(partitions)
        self._say(generation, member_id)

    def drop(self, partitions: Iterable[int], generation: int, member_id: str) -> None:
        gone = set(partitions)
        self._partitions -= gone
        self.due = [record for record in self.due if record[0] not in gone]
        self._say(generation, member_id)

    def _say(self, generation: int, member_id: str) -> None:
        _say(member=self._number, holds=sorted(self._partitions), generation=generation, id=member_id)


def _not_committed(failed: Exception) -> None:
    print(f"not committed: {failed}", file=sys.stderr)


def _confluent(part: Part) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    held = _Held(part.number)

    def who(consumer: Consumer) -> tuple[int, str]:
        published = consumer.consumer_group_metadata()[_GENERATION_AT:]
        return int.from_bytes(published[:4], sys.byteorder, signed=True), consumer.memberid() or ""

    consumer = Consumer(
        {
            "bootstrap.servers": part.bootstrap,
            "group.id": part.group,
            "session.timeout.ms": part.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": part.assignor,
            "log_level": 0,
        }
    )
    consumer.subscribe(
        [part.topic],
        on_assign=lambda me, parts: held.add((each.partition for each in parts), *who(me)),
        on_revoke=lambda me, parts: held.drop((each.partition for each in parts), *who(me)),
        on_lost=lambda me, parts: held.drop((each.partition for each in parts), *who(me)),
    )
    while not part.published.is_set():
        came = consumer.consume(AT_ONCE, POLL_SECONDS)
        for failed in filter(None, (message.error() for message in came)):
            assert failed.retriable() or failed.code() == KafkaError._ALL_BROKERS_DOWN, failed
        held.take([(message.partition(), message.offset()) for message in came if message.error() is None])
        if held.due:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as refused:
                _not_committed(refused)
            else:
                held.committed()
    consumer.close()


def _kafka_python(part: Part) -> None:
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    held = _Held(part.number)
    assignor = RangePartitionAssignor if part.assignor == "range" else CooperativeStickyAssignor
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=part.bootstrap,
        group_id=part.group,
        session_timeout_ms=part.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=AT_ONCE,
        partition_assignment_strategy=[assignor],
    )

    def who() -> tuple[int, str]:
        # While a rebalance is prepared the public face has no generation; what is held is of the last one.
        now = consumer._coordinator._generation
        return now.generation_id, now.member_id

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            held.add((each.partition for each in assigned), *who())

        def on_partitions_revoked(self, revoked: Any) -> None:
            held.drop((each.partition for each in revoked), *who())

        def on_partitions_lost(self, lost: Any) -> None:
            held.drop((each.partition for each in lost), *who())

    consumer.subscribe([part.topic], listener=Listener())
    while not part.published.is_set():
        came = consumer.poll(int(1000 * POLL_SECONDS)).values()
        held.take([(message.partition, message.offset) for messages in came for message in messages])
        if held.due:
            try:
                consumer.commit()
            except kafka.errors.KafkaError as refused:
                _not_committed(refused)
            else:
                held.committed()
    consumer.close()


async def _aiokafka(part: Part) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.abc import ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    held = _Held(part.number)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=part.bootstrap,
        group_id=part.group,
        session_timeout_ms=part.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[RangePartitionAssignor],
    )

    def who() -> tuple[int, str]:
        return consumer._coordinator.generation, consumer._coordinator.member_id

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            held.add((each.partition for each in assigned), *who())

        async def on_partitions_revoked(self, revoked: Any) -> None:
            held.drop((each.partition for each in revoked), *who())

    consumer.subscribe([part.topic], listener=Listener())
    await consumer.start()
    while not part.published.is_set():
        came = await consumer.getmany(timeout_ms=int(1000 * POLL_SECONDS), max_records=AT_ONCE)
        held.take([(message.partition, message.offset) for messages in came.values() for message in messages])
        if held.due:
            try:
                await consumer.commit()
            except KafkaError as refused:
                _not_committed(refused)
            else:
                held.committed()
    await consumer.stop()


def _run(client: str, part: Part) -> None:
    if client == "confluent":
        _confluent(part)
    elif client == "kafka-python":
        _kafka_python(part)
    else:
        asyncio.run(_aiokafka(part))


def main(client: str, bootstrap: str, group: str, topic: str, assignor: str, session: str, count: str) -> None:
    published = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        published.set()

    threading.Thread(target=listen, daemon=True).start()
    parts = [Part(number, bootstrap, group, topic, assignor, int(session), published) for number in range(int(count))]
    failed = _together(client, parts)
    if failed is not None:
        raise failed


def _together(client: str, parts: Sequence[Part]) -> BaseException | None:
    """A member that fails takes the others with it."""
    failures: list[BaseException] = []

    def live(part: Part) -> None:
        try:
            _run(client, part)
        except BaseException as failed:  # noqa: BLE001 - it is raised where it ends the process
            failures.append(failed)
            part.published.set()

    threads = [threading.Thread(target=live, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures[0] if failures else None


if __name__ == "__main__":
    main(*sys.argv[1:])
