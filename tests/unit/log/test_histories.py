"""Random histories of one log against a plain list: appended, cut, dropped, restarted in every way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from highwater.log.truncation import restart
from highwater.sim import Knobs, Simulation
from tests.unit.log.bench import START_MS, all_records, append, batch
from tests.unit.log.test_faults import Machine

SEEDS = 40
STEPS = 60


class Stored(NamedTuple):
    value: bytes
    epoch: int
    pid: int
    sequence: int


class History:
    """The log, and what it must hold: `model[offset - start]`."""

    def __init__(self, sim: Simulation, random: Random, flush: bool) -> None:
        self.random = random
        self.machine = Machine(
            sim,
            segment_bytes=random.choice([300, 900, 4000]),
            index_interval_bytes=random.choice([0, 150, 4096]),
            flush_messages=1 if flush else random.choice([5, 10**9]),
            retention_bytes=1500,
        )
        self.flush = flush
        self.base = 0
        """Offset of the first record of the model."""
        self.model: list[Stored] = []
        self.start = self.durable_start = 0
        self.epoch = 0
        self.restarts = 0

    @property
    def end(self) -> int:
        return self.base + len(self.model)

    def step(self) -> None:
        doings: list[tuple[int, Callable[[], None]]] = [
            (12, self.append),
            (2, self.roll),
            (2, self.new_epoch),
            (2, self.truncate),
            (1, self.raise_start),
            (2, self.retain),
            (2, lambda: self.machine.sim.advance(self.random.uniform(0, 0.02))),
            (1, self.stop_in_order),
            (1, self.kill),
            (2, self.lose_power),
            (1 if self.random.random() < 0.2 else 0, self.begin_anew),
        ]
        self.random.choices([do for _, do in doings], [weight for weight, _ in doings])[0]()
        self.check()

    def append(self) -> None:
        pid = self.random.choice([-1, 1, 2])
        count = self.random.randint(1, 4)
        values = [self.random.randbytes(self.random.randint(0, 60)) for _ in range(count)]
        known = self.machine.log.producers.producers.get(pid)
        sequence = -1 if pid < 0 else 0 if known is None else known.last_sequence + 1
        data = batch(
            values, pid=pid, epoch=-1 if pid < 0 else 0, sequence=sequence, codec=self.random.choice([0, 0, 3])
        )
        found = self.machine.world.call(append, self.machine.log, data, self.epoch)
        assert (found.base_offset, found.duplicate) == (self.end, False)
        self.model += [Stored(value, self.epoch, pid, sequence + at) for at, value in enumerate(values)]

    def roll(self) -> None:
        self.machine.world.call(self.machine.log.roll)

    def new_epoch(self) -> None:
        self.epoch += 1
        self.machine.world.call(self.machine.log.assign_epoch, self.epoch, self.end)

    def truncate(self) -> None:
        log = self.machine.log
        offset = self.random.randint(self.start, self.end)
        self.run(self.machine.bench.store.truncate(log, offset))
        assert log.log_end <= offset
        lost = self.model[log.log_end - self.base : offset - self.base]
        assert len(lost) < 4, "only the batch that was cut through may go with it"
        del self.model[log.log_end - self.base :]
        if log.log_end == self.start:
            # Cut through the batch that the log start lies in: what was deleted of it is gone for good.
            self.base, self.model = self.start, []
        self.sync()

    def sync(self) -> None:
        """Until then a power cut may bring the old tail back, as good as ever."""
        log = self.machine.log
        self.machine.world.call(log.flush)
        self.machine.sim.run(self.machine.sim.until(lambda: not log.durability.under_way))
        assert log.durable_end == log.log_end

    def raise_start(self) -> None:
        store = self.machine.bench.store
        self.machine.log.move_high_watermark(self.end)
        self.start = self.random.randint(self.start, self.end)
        self.machine.world.call(self.machine.log.raise_log_start, self.start)
        if self.random.random() < 0.7:
            written: asyncio.Future[None] = self.machine.sim.loop.create_future()
            self.machine.world.call(store.log_starts.write, lambda: written.set_result(None))
            self.machine.sim.run(self.machine.sim.until(written.done))
            self.durable_start = self.start

    def retain(self) -> None:
        log = self.machine.log
        log.move_high_watermark(self.random.randint(max(log.high_watermark, self.start), self.end))
        self.run(self.machine.bench.store.expiry.apply(log))
        assert self.start <= log.log_start <= log.high_watermark
        self.start = log.log_start

    def begin_anew(self) -> None:
        self.base = self.start = self.durable_start = self.end + self.random.randint(0, 50)
        self.model = []
        self.run(restart(self.machine.world, self.machine.log, self.base))
        self.sync()

    def stop_in_order(self) -> None:
        self.machine.close()
        self.machine.restart(power_loss=False)
        assert self.machine.log.log_end == self.end
        self.restarted()

    def kill(self) -> None:
        self.machine.restart(power_loss=False)
        assert self.machine.log.log_end == self.end
        self.restarted()

    def lose_power(self) -> None:
        durable = self.machine.log.durable_end
        self.machine.restart(power_loss=True)
        log = self.machine.log
        assert durable <= log.log_end <= max(self.end, log.log_start)
        del self.model[max(log.log_end - self.base, 0) :]
        if log.log_end > self.end:
            self.base, self.model = log.log_end, []
        self.restarted()

    def restarted(self) -> None:
        log = self.machine.log
        assert log.offline is None
        assert log.durable_end == log.log_end
        assert log.log_start >= self.durable_start
        if log.log_start < self.base:
            self.machine.world.call(log.raise_log_start, self.base)
        self.start = log.log_start
        self.epoch = max(self.epoch, log.epoch_cache.latest)
        self.restarts += 1

    def run(self, coroutine) -> None:  # type: ignore[no-untyped-def]
        self.machine.sim.run(self.machine.world.perform(coroutine))

    def check(self) -> None:
        log = self.machine.log
        assert (log.log_end, self.machine.bench.offline) == (self.end, [])
        assert log.durable_end <= log.log_end
        first = max(log.log_start, self.base)
        there = self.model[first - self.base :]
        found = self.machine.sim.run(self.machine.world.perform(all_records(self.machine.world, log)))
        assert [value for _, value in found] == [stored.value for stored in there]
        assert [offset for offset, _ in found] == list(range(first, self.end))
        for offset, stored in enumerate(there, first):
            assert log.epoch_cache.epoch_at(offset) == stored.epoch
        for pid in (1, 2):
            last = next((stored.sequence for stored in reversed(there) if stored.pid == pid), None)
            if last is not None:
                assert log.producers.producers[pid].last_sequence == last


@pytest.mark.parametrize("flush", [False, True], ids=["kafkas default", "flush mode"])
def test_a_log_agrees_with_a_plain_list_in_random_histories(flush: bool) -> None:
    restarts = 0
    for seed in range(SEEDS // 2):
        with Simulation(seed, Knobs(cold_read=0.3)) as sim:
            history = History(sim, Random(f"{seed} {flush}"), flush)
            for number in range(STEPS):
                try:
                    history.step()
                except BaseException as failed:
                    failed.add_note(f"seed {seed}, step {number}")
                    raise
            restarts += history.restarts
    assert restarts > SEEDS
    assert START_MS
