"""A log directory on a real or a simulated disk, driven through its life: opened, written, stopped in any way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

from highwater.config import LogConfig, NodeConfig
from highwater.errors import KafkaError
from highwater.log import lookup, peek
from highwater.log.appended import Appended, Origin
from highwater.log.log import Log
from highwater.log.store import LogStore
from highwater.log.truncation import truncate
from highwater.model import TopicPartition, Uuid
from highwater.wire import records
from highwater.wire.records.append import Validated
from highwater.world import World
from highwater.world.jobs import finished
from highwater.world.real import RealWorld, new_event_loop

T = TypeVar("T")
TP = TopicPartition("orders", 0)
TOPIC_ID = Uuid(bytes(range(16)))
NODE = NodeConfig.parse(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": "/nowhere",
    }
)
START_MS = 1_700_000_000_000


def settings(**changes: Any) -> LogConfig:
    """A topic's settings, with indexes so dense that small logs have some."""
    small = {"index_interval_bytes": 200, "file_delete_delay_ms": 0, "retention_ms": -1}
    return replace(LogConfig.resolve(NODE, {}), **{**small, **changes})


def batch(
    values: Sequence[bytes] = (b"value",),
    *,
    timestamps: Sequence[int] | None = None,
    codec: int = 0,
    pid: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytearray:
    stamps = timestamps if timestamps is not None else [START_MS] * len(values)
    rows = [(stamp, None, value, ()) for stamp, value in zip(stamps, values, strict=True)]
    return records.build(rows, codec=codec, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)


def append(log: Log, data: bytearray, leader_epoch: int = 0) -> Appended:
    return log.append_as_leader(Validated(data, records.read_header(data), -1), leader_epoch, Origin.CLIENT)


async def stored(world: World, log: Log, offset: int, max_bytes: int = 1 << 30, at_least_one: bool = True) -> bytes:
    """What a reader at `offset` is sent, wherever the place must be looked up."""
    while True:
        try:
            parts = log.read(offset, max_bytes, log.log_end, at_least_one, peek.cached)
        except peek.WouldBlock as blocked:
            found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            log.reads.locate_later(blocked.offset, lambda found=found: found.set_result(None))  # type: ignore[misc]
            await found
        else:
            break
    pieces = [await finished(world, _read, part.file, part.pos, part.size) for part in parts]
    return b"".join(pieces)


def _read(disk: Any, file: Any, pos: int, size: int) -> Any:
    yield from ()
    return bytes(file.read(pos, size))


async def all_records(world: World, log: Log) -> list[tuple[int, bytes]]:
    """Every record by offset, read the way a consumer does."""
    found: list[tuple[int, bytes]] = []
    offset = log.log_start
    while offset < log.log_end:
        data = await stored(world, log, offset, 4096)
        assert data, f"nothing at {offset}"
        for record in records.iterate_all(data):
            if record.offset >= offset:
                found.append((record.offset, bytes(record.value or b"")))
        offset = records.end_offset(data) or log.log_end
    return found


async def answers(world: World, log: Log, times: Sequence[int]) -> dict[str, object]:
    """All that a client can learn of the log: what must not change by a restart."""
    by_time = [
        await finished(world, lookup.first_at_or_after, list(log.segments), when, log.log_start) for when in times
    ]
    return {
        "ends": (log.log_start, log.log_end),
        "records": await all_records(world, log),
        "at each offset": [
            records.read_header(await stored(world, log, offset)).base_offset
            for offset in range(log.log_start, log.log_end)
        ],
        "by time": by_time,
        "latest": await finished(world, lookup.with_largest_timestamp, list(log.segments), log.log_start),
        "producers": known_producers(log),
        "epochs": log.epoch_cache.entries,
        "aborted": log.aborted_transactions(0, log.log_end),
    }


def known_producers(log: Log) -> dict[int, object]:
    """All but the times of batches before the last one, which a snapshot keeps only where they rise."""
    return {
        pid: (
            [seen[:4] for seen in known.batches],
            (known.epoch, known.timestamp, known.coordinator_epoch, known.txn_first_offset),
        )
        for pid, known in log.producers.producers.items()
    }


async def create_log(store: LogStore, partition: TopicPartition, topic_id: Uuid) -> Log:
    (made,) = await store.create_all([(partition, topic_id)])
    if isinstance(made, KafkaError):
        raise made
    return made


class Bench:
    """One directory over several lives of its store. `stop` in between as the case demands."""

    def __init__(self, world: World, directory: PurePath, config: LogConfig) -> None:
        self.world = world
        self.directory = directory
        self.config = config
        self.offline: list[Log] = []
        self.store = self._new_store()

    def _new_store(self) -> LogStore:
        return LogStore(self.world, self.directory, lambda topic: self.config, self.offline.append)

    async def create(self) -> Log:
        await self.store.open()
        return await create_log(self.store, TP, TOPIC_ID)

    @property
    def log(self) -> Log:
        return self.store.logs[TP]

    async def reopen(self, clean: bool = True) -> Log:
        """The next life: after an orderly stop, or as after kill -9."""
        if clean:
            await self.store.close(7)
        await self.abandon()
        self.store = self._new_store()
        await self.store.open()
        return self.log

    async def abandon(self) -> None:
        """No job of this life is left at work."""
        for log in self.store.logs.values():
            log.close()
        for log in self.store.logs.values():
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            log.snapshots.when_idle(lambda idle=idle: idle.set_result(None))  # type: ignore[misc]
            await idle
            await until(lambda log=log: log.epoch_file.in_step and not log.durability.under_way)  # type: ignore[misc]

    @property
    def partition_directory(self) -> PurePath:
        return self.directory / str(TP)

    async def truncate(self, offset: int) -> bool:
        return await truncate(self.world, self.log, offset)


def on_real_disk(directory: Path, play: Callable[[Bench], Coroutine[Any, Any, T]], **changes: Any) -> T:
    """Run the play over files of this machine."""
    loop = new_event_loop()
    failures: list[object] = []
    world = RealWorld(loop, lambda name, failed: failures.append((name, failed)))
    loop.set_exception_handler(lambda _, context: failures.append(context))
    try:
        bench = Bench(world, PurePath(directory), settings(**changes))
        result = loop.run_until_complete(asyncio.wait_for(play(bench), 240))
        loop.run_until_complete(bench.abandon())
    finally:
        world.close()
        loop.run_until_complete(_turn())
        loop.close()
    assert not failures, failures
    return result


async def _turn() -> None:
    await asyncio.sleep(0)


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Let the loop run until it holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


async def refusal(attempt: Callable[[], object | Awaitable[object]]) -> KafkaError:
    try:
        result = attempt()
        if isinstance(result, Awaitable):
            await result
    except KafkaError as refused:
        return refused
    raise AssertionError("it was not refused")
