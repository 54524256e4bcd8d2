"""A table in a compacted topic: one writer sets keys during the faults, and some values of them must be left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from highwater.audit import Outcome
from highwater.model import TopicPartition
from highwater.sim.client import Client
from highwater.sim.producer import Producer
from highwater.sim.reader import Reader

TABLE = TopicPartition("table", 0)
KEYS = 4
SEND_SECONDS = 4.0
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "600",
    "min.cleanable.dirty.ratio": "0.01",
    "flush.messages": "1",
}
SETTINGS = {"log.cleaner.backoff.ms": "600"}
"""Settings of the brokers: compaction runs all the time."""


class TableLoad:
    """`wrong` lists keys whose last acknowledged value is gone without a later one in its place."""

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self._note = note
        self._sent: dict[int, list[tuple[bytes, Outcome]]] = {key: [] for key in range(KEYS)}
        self.over = False
        """Set this event to end the writer."""
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def write(self, client: Client) -> None:
        producer, random = Producer(client), client.world.random("work")
        made = 0
        while not self.over:
            key, made = random.randrange(KEYS), made + 1
            value = f"{key} {made} ".encode().ljust(random.randint(10, 90), b".")
            self._sent[key].append((value, Outcome.UNKNOWN))
            sent = await producer.send(TABLE, [value], SEND_SECONDS, key=b"%d" % key)
            self._sent[key][-1] = (value, sent[0].outcome)
            self.seen[f"keys {sent[0].outcome.value}"] += 1
            await asyncio.sleep(random.uniform(0.03, 0.12))
        client.close()

    async def audit(self, client: Client, seconds: float) -> None:
        page = await Reader(client).read_all(TABLE, seconds)
        left = {int(read.value.split()[0]): read.value for read in page.reads}
        self._note("auditor", f"{TABLE}: {len(page.reads)} records of {page.high_watermark}")
        self.seen["keys compacted away"] += page.high_watermark - len(page.reads)
        for key, sent in self._sent.items():
            acked = [at for at, (_, outcome) in enumerate(sent) if outcome is Outcome.ACKED]
            may_be = {value for value, outcome in sent[acked[-1] if acked else 0 :] if outcome is not Outcome.FAILED}
            if left.get(key, None if acked else b"") not in {*may_be, *([] if acked else [b""])}:
                self.wrong.append(f"{TABLE}: key {key} is {left.get(key)!r}, one of {sorted(may_be)[:3]} is due")
