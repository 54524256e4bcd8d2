"""One replica on a real disk, and what is done to it: what tests of partitions share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from highwater.errors import Code, KafkaError
from highwater.model import NodeId
from highwater.partition import fetching
from highwater.partition.fetch_session import FetchEntry, FetchSession
from highwater.partition.fetching import FetchRow, Reader
from highwater.partition.in_sync import InSync
from highwater.partition.partition import Partition
from tests.unit.log.bench import START_MS, Bench, batch, on_real_disk

ME, OTHER, THIRD = NodeId(1), NodeId(2), NodeId(3)
ALL = (ME, OTHER, THIRD)
BROKER_EPOCH = 7
CONSUMER = Reader(-1, 0, -1)
Play = Callable[[Bench, Partition], Coroutine[Any, Any, None]]


def alone() -> InSync:
    """A broker that knows of no other: nobody can join an ISR, and nothing is asked of a controller."""

    def ask(*proposal: object) -> None:
        raise AssertionError(f"asked for {proposal}")

    return InSync(lambda: 0.0, lambda: 30.0, ask)


def played(
    directory: Path,
    play: Play,
    isr: tuple[NodeId, ...] = (ME,),
    replicas: tuple[NodeId, ...] | None = None,
    **changes: object,
) -> None:
    """It leads in epoch 3; alone in its ISR, it is the only replica where no others are named."""

    async def with_partition(bench: Bench) -> None:
        partition = Partition(await bench.create(), alone())
        partition.lead(ME, 3, 0, replicas or ((ME,) if isr == (ME,) else ALL), isr, {})
        await play(bench, partition)

    on_real_disk(directory, with_partition, **changes)


def write(partition: Partition, *values: bytes, acks: int = -1, **more: Any) -> int:
    data = batch(values or (b"v",), **more)
    return partition.append(memoryview(data), acks, 9, START_MS).base_offset


def entry_at(
    offset: int, epoch: int = -1, last: int = -1, log_start: int = -1, max_bytes: int = 1 << 20, follower: bool = False
) -> FetchEntry:
    session = FetchSession(0, False, follower, 0.0)
    session.update("orders", 0, epoch, offset, last, log_start, max_bytes)
    return session.entries["orders", 0]


def read(partition: Partition, offset: int, reader: Reader = CONSUMER, epoch: int = -1, last: int = -1) -> FetchRow:
    return fetching.read(entry_at(offset, epoch, last), partition, reader, 1 << 20, True)


def code_of(attempt: Callable[[], object]) -> Code:
    with pytest.raises(KafkaError) as refusal:
        attempt()
    return refusal.value.code


class Noted:
    """A watcher that records its notifications."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def mark(self) -> None:
        self.calls.append("marked")

    def note(self) -> None:
        self.calls.append("noted")

    def restate(self) -> None:
        self.calls.append("restated")

    def taken(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls
