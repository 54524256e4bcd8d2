"""The clients of a run: producers and a reader during the faults, an auditor at the end, and their verdict."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from highwater.audit import History, Outcome, Read, Sent, judge
from highwater.errors import Code, KafkaError, code_of
from highwater.model import Endpoint, Offset, TopicPartition
from highwater.net.client import CallFailed
from highwater.sim.client import Client
from highwater.sim.faults.permitted import Permitted
from highwater.sim.producer import Producer
from highwater.sim.reader import Page, Reader, ServedDamage
from highwater.sim.shape import PARTITIONS, TopicShape
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse

SEND_SECONDS = 4.0
CALL_SECONDS = 0.8
READ_SECONDS = 60.0
LATEST = -1
LARGEST_TIMESTAMP = -3
SEEK_BACK_MS = 300
ONE_PARTITION = 0.5
"""The probability that a producer sends to a single partition."""
READER = "reader"


class Witness(Protocol):
    """It is notified at once of what clients get to know."""

    def acked(self, tp: TopicPartition, end: int) -> None: ...

    def end_reported(self, tp: TopicPartition, epoch: int, end: int) -> None: ...

    def is_deposed(self, tp: TopicPartition, broker: Endpoint) -> bool:
        """Whether the controller has elected another leader, or none, by now."""
        ...

    def is_alone(self, tp: TopicPartition) -> bool:
        """Whether at most one replica is in sync. Damage of the only copy is reported to readers."""
        ...


async def create_topics(client: Client, topics: Sequence[TopicShape]) -> None:
    for topic in topics:
        await create_topic(client, topic.name, PARTITIONS, topic.replicas, topic.configs)
    client.close()


async def create_topic(client: Client, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
    """The request is repeated until the topic exists."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=5000)
    while True:
        try:
            answer = await client.ask_any(request, CreateTopicsResponse, SEND_SECONDS)
            if answer.topics[0].error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                return
        except CallFailed:
            pass
        await client.back_off()


class Load:
    """What the clients do and see. `wrong` lists what they saw and should not have seen."""

    def __init__(
        self, partitions: Sequence[TopicPartition], witness: Witness, note: Callable[[str, str], None]
    ) -> None:
        self._partitions = partitions
        self._witness = witness
        self._note = note
        self.sends: list[Sent] = []
        self._begun: dict[bytes, tuple[TopicPartition, str]] = {}
        self.reads: dict[Read, None] = {}
        self.whole: dict[TopicPartition, Page] = {}
        self._out_of_range: list[tuple[TopicPartition, int]] = []
        self._made = 0
        self.over = False
        """Set this event to end the clients."""
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    # While things go wrong

    async def produce(self, client: Client) -> None:
        producer, random, name = Producer(client), client.world.random("work"), client.client_id
        while not self.over:
            values = {at: self._values(name, random) for at in self._some_partitions(random)}
            for at, each in values.items():
                self._begun |= dict.fromkeys(each, (at, name))
            await producer.send_all(values, SEND_SECONDS, self._took)
            await asyncio.sleep(random.uniform(0.005, 0.06) * len(values))
        client.close()

    def _some_partitions(self, random: Random) -> list[TopicPartition]:
        """Partitions with the same leader are in one request."""
        count = 1 if random.random() < ONE_PARTITION else random.randint(2, len(self._partitions))
        return random.sample(self._partitions, count)

    def _values(self, name: str, random: Random) -> list[bytes]:
        values = []
        for _ in range(random.randint(1, 3)):
            self._made += 1
            values.append(f"{name} {self._made}".encode().ljust(random.randint(1, 120), b"."))
        return values

    def _took(self, sent: Sequence[Sent]) -> None:
        for each in sent:
            del self._begun[each.value]
        self.sends += sent
        first = sent[0]
        partition, name = first.partition, first.producer
        self.seen[first.outcome.value] += len(sent)
        text = f"{partition} {first.value.rstrip(b'.').decode()} +{len(sent)}: {first.outcome.value}"
        self._note(name, f"{text} at {first.offset}" if first.offset >= 0 else text)
        if first.outcome is Outcome.ACKED:
            self._witness.acked(partition, sent[-1].offset + 1)

    async def follow(self, client: Client) -> None:
        reader, random = Reader(client), client.world.random("work")
        offsets = dict.fromkeys(self._partitions, 0)
        while not self.over:
            partition = random.choice(self._partitions)
            was_alone = self._witness.is_alone(partition)
            try:
                if random.random() < 0.2:
                    await self._ask_latest(client, partition)
                asked, _ = await client.leader(partition, CALL_SECONDS)
                page = await reader.fetch(partition, offsets[partition], CALL_SECONDS, random.choice((0, 20)))
            except KafkaError as failed:
                if failed.code is Code.OFFSET_OUT_OF_RANGE:
                    # A deposed leader that does not know it yet lacks the records written since. It would refuse a
                    # consumer that sends the newer leader epoch of its metadata.
                    if not self._witness.is_deposed(partition, asked):
                        self._out_of_range.append((partition, offsets[partition]))
                    offsets[partition] = await self._begin_again(reader, partition)
                elif failed.code is Code.CORRUPT_MESSAGE:
                    self.judge_damage(failed, was_alone or self._witness.is_alone(partition))
                await client.back_off()
            except CallFailed:
                client.forget_leaders()
                await client.back_off()
            else:
                self.reads |= dict.fromkeys(page.reads)
                self.seen["read"] += len(page.reads)
                offsets[partition] = page.next_offset if random.random() < 0.9 else 0
                await asyncio.sleep(random.uniform(0.005, 0.05))
        client.close()

    def judge_damage(self, failed: KafkaError, of_only_copy: bool) -> None:
        """Damaged records are never served. A damaged leader lets another replica lead; the only copy reports the
        damage."""
        if isinstance(failed, ServedDamage) or not of_only_copy:
            self.wrong.append(f"{failed.code.name}: {failed.message}")

    async def seek(self, client: Client) -> None:
        """Looks up offsets by timestamp again and again: that reads files while they change."""
        random = client.world.random("work")
        while not self.over:
            partition = random.choice(self._partitions)
            at = random.choice((LARGEST_TIMESTAMP, client.world.clock.wall_ms() - random.randint(0, SEEK_BACK_MS)))
            try:
                row = await self._ask_by_time(client, partition, at)
                self.seen["looked up by time"] += 1
                if row.error_code:
                    raise KafkaError(code_of(row.error_code), str(partition))
            except (KafkaError, CallFailed):
                client.forget_leaders()
                await client.back_off()
        client.close()

    async def _begin_again(self, reader: Reader, partition: TopicPartition) -> int:
        """The start of the log: its records may be deleted at any moment."""
        try:
            return await reader.earliest(partition, CALL_SECONDS)
        except (KafkaError, CallFailed):
            return 0

    async def _ask_latest(self, client: Client, partition: TopicPartition) -> int | None:
        """None if there is no answer now: a new leader does not know the end immediately."""
        row = await self._ask_by_time(client, partition, LATEST)
        if row.error_code:
            client.forget_leaders()
            return None
        self._witness.end_reported(partition, row.leader_epoch, row.offset)
        return row.offset

    async def _ask_by_time(self, client: Client, partition: TopicPartition, at: int) -> ListOffsetsPartitionResponse:
        leader, _ = await client.leader(partition, CALL_SECONDS)
        wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=at)
        topic = ListOffsetsTopic(name=partition.topic, partitions=[wanted])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await client.ask(leader, request, ListOffsetsResponse, CALL_SECONDS)
        return answer.topics[0].partitions[0]

    # At the end

    async def audit(self, client: Client) -> None:
        for partition in self._partitions:
            end = await self._find_end(client, partition)
            page = await Reader(client).read_all(partition, READ_SECONDS)
            while page.high_watermark < end:
                await client.back_off()
                page = await Reader(client).read_all(partition, READ_SECONDS)
            self.whole[partition] = page
            self._note("auditor", f"{partition} holds [{page.log_start}, {page.high_watermark})")
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

    def judge(self, lossy: frozenset[TopicPartition], permitted: Permitted) -> None:
        """If a topic allowed data loss and a partition lost data, only the end of that partition is judged: each
        remaining record is there once, in order, and was sent. Records missing before the log start were deleted on
        request, or expired."""
        starts = {partition: page.log_start for partition, page in self.whole.items()}
        self._judge_starts(lossy, starts, permitted)
        sends = [*self.sends]
        sends += [Sent(at, value, producer, Outcome.UNKNOWN) for value, (at, producer) in self._begun.items()]
        before = [read for read in self.reads if read.partition not in lossy]
        read = {each.value for each in before}
        unread = {each for each in sends if 0 <= each.offset < starts[each.partition] and each.value not in read}
        self.seen["deleted unread"] += len(unread)
        sends = [each for each in sends if each not in unread]
        after = [read for page in self.whole.values() for read in page.reads]
        kept = {read.value: read.offset for read in after if read.partition in lossy}
        given_up = {sent.value for sent in sends if sent.partition in lossy and sent.value not in kept}
        # A leader that was elected uncleanly may have had it elsewhere: sent once before, and never acknowledged there.
        sends = [
            sent._replace(offset=kept[sent.value]) if sent.offset >= 0 and sent.value in kept else sent
            for sent in sends
        ]
        self.seen["given up"] += sum(sent.outcome is Outcome.ACKED for sent in sends if sent.value in given_up)
        verdict = judge(History([sent for sent in sends if sent.value not in given_up], [*before, *after]))
        self.seen["acked and judged"] += verdict.acked
        if not verdict.ok:
            wrong = {name: n for name, n in verdict.counts.items() if name not in ("acked", "delivered") and n}
            self.wrong += [f"the audit finds {name}: {getattr(verdict, name)[:3]}" for name in wrong]
        for partition, page in self.whole.items():
            self._judge_whole(partition, page, before)

    def _judge_starts(
        self, lossy: frozenset[TopicPartition], starts: Mapping[TopicPartition, Offset], permitted: Permitted
    ) -> None:
        for partition, start in starts.items():
            if not permitted.start(partition, start):
                self.wrong.append(f"{partition}: begins at {start}, and no client asked for that")
        for partition, at in self._out_of_range:
            # A deletion that was not confirmed may be in force at one leader and not at the next.
            if partition not in lossy and at >= starts[partition] and not permitted.start(partition, at + 1):
                self.wrong.append(f"{partition}: {at} was committed, and is out of range")

    def _judge_whole(self, partition: TopicPartition, page: Page, before: Sequence[Read]) -> None:
        offsets = [read.offset for read in page.reads]
        if offsets != list(range(page.log_start, page.high_watermark)):
            self.wrong.append(f"{partition}: the offsets have gaps")
        there = set(offsets)
        for read in before:
            if read.partition == partition and read.offset >= page.log_start and read.offset not in there:
                self.wrong.append(f"{partition}: offset {read.offset} was read, and is not there any more")
