"""A compacted log on a simulated disk, its cleaner, and a plain dictionary that says what must be in it."""

from __future__ import annotations

from pathlib import PurePath
from random import Random
from typing import Any

from highwater.config import NodeConfig
from highwater.log.compaction.cleaner import Cleaner
from highwater.log.log import Log
from highwater.sim import Simulation
from highwater.wire import records
from tests.unit.log.bench import NODE, TP, Bench, append, settings, stored

DATA = PurePath("/data")
NAME = "node"
RETENTION_MS = 60_000
Row = tuple[bytes, bytes | None]


def tiny(**changes: Any) -> dict[str, Any]:
    small = {"cleanup_policy": ("compact",), "segment_bytes": 700, "min_cleanable_dirty_ratio": 0.0}
    return {**small, "delete_retention_ms": RETENTION_MS, **changes}


class Stage:
    """Lives come and go; what was written and is durable stays."""

    def __init__(self, seed: int, node: NodeConfig = NODE, **changes: Any) -> None:
        self.random = Random(seed)
        self.sim = Simulation(seed)
        self.node = node
        self.changes = tiny(**changes)
        self.world = self.sim.world(NAME)
        self.sim.storage(NAME).provide(DATA)
        self.bench = Bench(self.world, DATA, settings(**self.changes))
        self.cleaner = Cleaner(self.world, self.bench.store, lambda: self.node)
        self.expected: dict[bytes, bytes] = {}
        self.sequences: dict[int, int] = {}

    async def create(self) -> Log:
        return await self.bench.create()

    @property
    def log(self) -> Log:
        return self.bench.store.logs[TP]

    @property
    def now_ms(self) -> int:
        return self.world.clock.wall_ms()

    async def stop(self, clean: bool) -> None:
        """An orderly end of this life, or kill -9."""
        if clean:
            await self.bench.store.close(7)
        self.sim.crash(NAME, power_loss=False)

    async def restart(self) -> Log:
        """A next life on what the disk holds."""
        self.world = self.sim.restart(NAME)
        self.bench = Bench(self.world, DATA, settings(**self.changes))
        self.cleaner = Cleaner(self.world, self.bench.store, lambda: self.node)
        await self.bench.store.open()
        assert not self.bench.store.unloaded, self.bench.store.unloaded
        self.log.move_high_watermark(self.log.log_end)
        return self.log

    def write(self, rows: list[Row], *, codec: int = 0, pid: int = -1) -> None:
        sequence = self.sequences.get(pid, 0) if pid >= 0 else -1
        stamped = [(self.now_ms, key, value, ()) for key, value in rows]
        data = records.build(
            stamped, codec=codec, producer_id=pid, producer_epoch=0 if pid >= 0 else -1, base_sequence=sequence
        )
        append(self.log, data)
        self.sequences[pid] = sequence + len(rows)
        for key, value in rows:
            if value is None:
                self.expected.pop(key, None)
            else:
                self.expected[key] = value
        self.log.move_high_watermark(self.log.log_end)

    def write_some(self, batches: int, keys: int) -> None:
        for _ in range(batches):
            rows = [self._row(keys) for _ in range(self.random.randint(1, 6))]
            self.write(rows, codec=self.random.randrange(5), pid=self.random.choice((-1, 7, 8)))

    def _row(self, keys: int) -> Row:
        key = b"key-%d" % self.random.randrange(keys)
        return key, None if self.random.random() < 0.2 else b"%d" % self.random.getrandbits(40)

    async def clean(self) -> None:
        """Until nothing is dirty."""
        account = self.cleaner.account
        before = account.cleanings
        self.cleaner.start()
        self.cleaner._look()
        await self.sim.until(lambda: not account.under_way)
        self.cleaner.stop()
        assert not account.setbacks, account.setbacks
        assert account.cleanings > before or not self.cleaner.dirt_of(self.log).dirty_bytes

    async def read(self) -> list[records.Record]:
        """All that a consumer sees, in its order."""
        found: list[records.Record] = []
        offset = self.log.log_start
        while offset < self.log.log_end:
            data = await stored(self.world, self.log, offset, 4096)
            assert data, f"nothing at {offset}"
            for position, size, _ in records.walk(data):
                assert records.is_intact(data, position, size)
            found += [record for record in records.iterate_all(data) if record.offset >= offset]
            offset = records.end_offset(data) or self.log.log_end
        return found


def table_of(found: list[records.Record]) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    for record in found:
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table
