"""One seed: a cluster under load and faults, watched by the invariants, healed, read back and judged."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from highwater.audit import History, Outcome, Read, Sent, judge
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.net.client import CallFailed
from highwater.sim.client import Client
from highwater.sim.cluster import SimCluster
from highwater.sim.invariants import Violation, all_invariants
from highwater.sim.knobs import Knobs
from highwater.sim.loop import TimeLimit
from highwater.sim.producer import Producer
from highwater.sim.reader import Page, Reader
from highwater.sim.schedule import Nemesis, draw_schedule
from highwater.sim.simulation import Simulation
from highwater.sim.view import Observer
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse
from highwater.world import Dead

FLUSHED, CACHED = "flushed", "cached"
LOOK_SECONDS = 0.01
LOGS_EVERY = 30
SEND_SECONDS = 4.0
CALL_SECONDS = 0.8
HEAL_SECONDS = 60.0
LATEST = -1
CLIENTS = ("p1", "p2", "reader")


@dataclass
class Finding:
    """What a seed found wrong, and the story that led there."""

    seed: int
    faults: list[str]
    schedule: list[str]
    timeline: list[str]

    def text(self, last: int = 120) -> str:
        parts = [f"seed {self.seed}", "", "what went wrong:", *(f"  {fault}" for fault in self.faults[:5])]
        parts += ["", "faults:", *self.schedule, "", f"timeline (the last {last} lines):", *self.timeline[-last:]]
        return "\n".join(parts)


@dataclass
class Load:
    """What the clients did and saw."""

    sends: list[Sent] = field(default_factory=list)
    begun: dict[bytes, tuple[TopicPartition, str]] = field(default_factory=dict)
    reads: dict[Read, None] = field(default_factory=dict)
    whole: dict[TopicPartition, Page] = field(default_factory=dict)
    ends: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The latest offset that was told, and in which leader epoch."""
    wrong: list[str] = field(default_factory=list)


class Timeline(logging.Handler):
    """What happened, for people: faults, the nodes' warnings, what clients were told."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(logging.INFO)
        self._now = now
        self.lines: list[str] = []
        self.tracebacks: list[str] = []

    def note(self, who: str, text: str) -> None:
        self.lines.append(f"{self._now():9.4f}  {who:8}  {text}")

    def emit(self, record: logging.LogRecord) -> None:
        self.note("log", f"{record.name.rpartition('.')[2]}: {record.getMessage()}")
        if record.exc_info and record.exc_info[1] is not None and not isinstance(record.exc_info[1], Dead):
            self.tracebacks.append(self.format(record))


class Trial:
    """Deterministic in its seed. Call it: None, or what it found."""

    def __init__(self, seed: int, seconds: float = 8.0) -> None:
        self.seed = seed
        self._plan = plan = Random(f"cluster {seed}")
        self._seconds = seconds
        size = plan.choices((3, 4, 5), (6, 1, 1))[0]
        voters = 5 if size == 5 and plan.random() < 0.5 else 3
        self._all_flushed = plan.random() < 0.4
        knobs = Knobs.swarm(plan) if plan.random() < 0.4 else Knobs()
        self.sim = Simulation(seed, knobs)
        self.timeline = Timeline(lambda: self.sim.now)
        self.cluster = SimCluster(self.sim, size, voters, plan, self.timeline.note)
        self._topics = {FLUSHED: {"flush.messages": "1"}}
        if not self._all_flushed:
            self._topics[CACHED] = {}
        self.partitions = [TopicPartition(topic, index) for topic in self._topics for index in (0, 1)]
        self.observer = Observer(self.cluster)
        self.nemesis = Nemesis(self.cluster, CLIENTS, self.partitions, lambda: self.observer.truth, self._all_flushed)
        self.schedule = draw_schedule(plan, seconds, plan.randint(2, 9))
        self._invariants = all_invariants()
        self.load = Load()
        self.seen: Counter[str] = Counter()
        self._violation: Violation | None = None
        self._looks = 0
        self._over = False
        self._made = 0

    def __call__(self) -> Finding | None:
        logger = logging.getLogger("highwater")
        before, propagated = logger.level, logger.propagate
        logger.addHandler(self.timeline)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        faults: list[str] = []
        try:
            with self.sim:
                self.sim.run(self._story(), limit=400.0)
        except Exception as failed:  # noqa: BLE001 - whatever it is, the story explains it
            faults.append("".join(traceback.format_exception(failed)) if self._violation is None else str(failed))
        finally:
            logger.removeHandler(self.timeline)
            logger.setLevel(before)
            logger.propagate = propagated
        faults += [*self.timeline.tracebacks, *self.cluster.failures, *self.load.wrong]
        if not faults:
            return None
        return Finding(self.seed, faults, [*self.nemesis.done], self.timeline.lines)

    # The story

    async def _story(self) -> None:
        await self.cluster.format()
        for name in self.cluster.names:
            self.cluster.start(name)
        self.sim.at(self.sim.now + LOOK_SECONDS, self._look)
        await self._until(lambda: len(self.cluster.serving()) == len(self.cluster.names), "the cluster starts")
        await self._perform("admin", self._create_topics)
        tasks = [
            self._spawn("p1", self._produce),
            self._spawn("p2", self._produce),
            self._spawn("reader", self._follow),
        ]
        self.nemesis.arm(self.schedule)
        await self._pass(self._seconds)
        self.nemesis.end()
        self.timeline.note("story", "everything heals")
        await self._until(self._is_whole, "every replica is in sync again")
        await self._pass(0.3)
        self._over = True
        await asyncio.gather(*tasks)
        await self._perform("auditor", self._read_everything)
        await self._until(self._is_whole, "every replica is in sync at the end")
        self._check(at_logs=True)
        self._judge()

    async def _pass(self, seconds: float) -> None:
        end = self.sim.now + seconds
        while self.sim.now < end:
            await self.sim.sleep(min(0.05, max(end - self.sim.now, 0.001)))
            self._raise()

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self.sim.now + HEAL_SECONDS
        while not condition():
            if self.sim.now >= deadline:
                raise TimeLimit(f"not within {HEAL_SECONDS:.0f} s: {what}: {self._state()}")
            await self.sim.sleep(0.02)
            self._raise()

    def _raise(self) -> None:
        if self._violation is not None:
            raise self._violation
        if self.cluster.failures:
            raise AssertionError(self.cluster.failures[0])

    def _is_whole(self) -> bool:
        truth = self.observer.truth
        if truth is None or len(self.cluster.serving()) < len(self.cluster.names):
            return False
        return all(
            part.leader >= 0 and len(part.isr) == len(part.replicas) for _, _, part in truth.topics.each_partition()
        )

    def _state(self) -> str:
        truth = self.observer.truth
        serving = [member.name for member in self.cluster.serving()]
        if truth is None:
            return f"{serving} serve, no metadata"
        parts = [
            f"{topic.name}-{index}: leader {part.leader} epoch {part.leader_epoch} isr {part.isr} elr {part.elr}"
            for topic, index, part in truth.topics.each_partition()
        ]
        fenced = [broker.id for broker in truth.brokers.by_id.values() if broker.fenced]
        return f"{serving} serve, {fenced} are fenced; {'; '.join(parts)}"

    # Watching

    def _look(self) -> None:
        self._looks += 1
        try:
            self._check(at_logs=self._looks % LOGS_EVERY == 0)
        except Violation as found:
            self.timeline.note("WRONG", str(found))
            self._violation = found
            return
        self.cluster.look_for_failures()
        self.sim.at(self.sim.now + LOOK_SECONDS, self._look)

    def _check(self, at_logs: bool) -> None:
        view = self.observer.look(at_logs)
        for invariant in self._invariants:
            invariant.check(view)

    # Clients

    def _client(self, name: str) -> Client:
        world = self.sim.world(name)
        return world.call(Client, world, self.cluster.bootstrap, name, CALL_SECONDS)

    def _spawn(self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        client = self._client(name)
        world = client.world
        return world.spawn(name, work(client))

    async def _perform(self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        task = self._spawn(name, work)
        while not task.done():
            await self.sim.sleep(0.02)
            self._raise()
        await task

    async def _create_topics(self, client: Client) -> None:
        for name, configs in self._topics.items():
            wanted = CreatableTopic(
                name=name,
                num_partitions=2,
                replication_factor=3,
                configs=[
                    CreatableTopicConfig(name=key, value=value)
                    for key, value in {"min.insync.replicas": "2", "internal.segment.bytes": "4000", **configs}.items()
                ],
            )
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=5000)
            while True:
                try:
                    answer = await client.ask_any(request, CreateTopicsResponse, SEND_SECONDS)
                except CallFailed:
                    await client.back_off()
                    continue
                if answer.topics[0].error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                    break
                await client.back_off()
        client.close()

    async def _produce(self, client: Client) -> None:
        producer, random, name = Producer(client), client.world.random("work"), client.client_id
        while not self._over:
            partition = random.choice(self.partitions)
            values = []
            for _ in range(random.randint(1, 3)):
                self._made += 1
                values.append(f"{name} {self._made}".encode().ljust(random.randint(1, 120), b"."))
            self.load.begun |= dict.fromkeys(values, (partition, name))
            sent = await producer.send(partition, values, SEND_SECONDS)
            for each in sent:
                del self.load.begun[each.value]
            self.load.sends += sent
            first = sent[0]
            self.seen[first.outcome.value] += len(sent)
            text = f"{partition} {first.value.rstrip(b'.').decode()} +{len(sent)}: {first.outcome.value}"
            self.timeline.note(name, f"{text} at {first.offset}")
            await asyncio.sleep(random.uniform(0.005, 0.06))
        client.close()

    async def _follow(self, client: Client) -> None:
        reader, random = Reader(client), client.world.random("work")
        offsets = dict.fromkeys(self.partitions, 0)
        while not self._over:
            partition = random.choice(self.partitions)
            try:
                if random.random() < 0.2:
                    await self._ask_latest(client, partition)
                page = await reader.fetch(partition, offsets[partition], CALL_SECONDS, random.choice((0, 20)))
            except KafkaError as failed:
                if failed.code is Code.OFFSET_OUT_OF_RANGE:
                    self.load.wrong.append(f"{partition}: {offsets[partition]} was committed, and is out of range")
                elif failed.code is Code.CORRUPT_MESSAGE:
                    self.load.wrong.append(failed.message)
                await client.back_off()
            except CallFailed:
                client.forget_leaders()
                await client.back_off()
            else:
                self.load.reads |= dict.fromkeys(page.reads)
                self.seen["read"] += len(page.reads)
                offsets[partition] = page.next_offset if random.random() < 0.9 else 0
                await asyncio.sleep(random.uniform(0.005, 0.05))
        client.close()

    async def _ask_latest(self, client: Client, partition: TopicPartition) -> int | None:
        """The end that readers are told never goes back, unless an old leader tells it, whose epoch shows that. None
        where there is no answer now: a new leader does not know the end at once."""
        leader, _ = await client.leader(partition, CALL_SECONDS)
        wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=LATEST)
        topic = ListOffsetsTopic(name=partition.topic, partitions=[wanted])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await client.ask(leader, request, ListOffsetsResponse, CALL_SECONDS)
        row = answer.topics[0].partitions[0]
        if row.error_code:
            client.forget_leaders()
            return None
        epoch, end = self.load.ends.get(partition, (-1, 0))
        if row.leader_epoch >= epoch:
            if row.offset < end:
                text = f"{end} in epoch {epoch} to {row.offset} in epoch {row.leader_epoch}"
                self.load.wrong.append(f"{partition}: the end that readers are told went back from {text}")
            self.load.ends[partition] = (row.leader_epoch, row.offset)
        return row.offset

    async def _read_everything(self, client: Client) -> None:
        for partition in self.partitions:
            end = await self._find_end(client, partition)
            page = await Reader(client).read_all(partition, HEAL_SECONDS)
            while page.high_watermark < end:
                await client.back_off()
                page = await Reader(client).read_all(partition, HEAL_SECONDS)
            self.load.whole[partition] = page
            self.timeline.note("auditor", f"{partition} holds [{page.log_start}, {page.high_watermark})")
        client.close()

    async def _find_end(self, client: Client, partition: TopicPartition) -> int:
        while True:
            try:
                end = await self._ask_latest(client, partition)
            except (KafkaError, CallFailed):
                client.forget_leaders()
                end = None
            if end is not None:
                return end
            await client.back_off()

    # The verdict

    def _judge(self) -> None:
        load = self.load
        sends = [*load.sends]
        sends += [Sent(at, value, producer, Outcome.UNKNOWN) for value, (at, producer) in load.begun.items()]
        reads = [*load.reads, *(read for page in load.whole.values() for read in page.reads)]
        verdict = judge(History(sends, reads))
        self.seen["acked and judged"] += verdict.acked
        if not verdict.ok:
            wrong = {name: n for name, n in verdict.counts.items() if name not in ("acked", "delivered") and n}
            load.wrong += [f"the audit finds {name}: {getattr(verdict, name)[:3]}" for name in wrong]
        for partition, page in load.whole.items():
            offsets = [read.offset for read in page.reads]
            if offsets != list(range(page.log_start, page.high_watermark)):
                load.wrong.append(f"{partition}: the offsets have gaps")
            there = set(offsets)
            for read in load.reads:
                if read.partition == partition and read.offset not in there:
                    load.wrong.append(f"{partition}: offset {read.offset} was read, and is not there any more")
