"""Writes down what clients saw, and judges it: by the audit, and by rules that need a view of everything."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from highwater.audit import History, Outcome, Read, Sent, judge
from highwater.errors import Code
from highwater.model import TopicPartition
from highwater.sim import Simulation
from highwater.sim.reader import Page
from tests.sim.topic_promises import TopicPromises

Note = Callable[[str, str], None]
ENDLESS = 1 << 62


class Witness:
    """`durable` topics lose nothing by a power cut; others may lose an unsynced end then, and never more."""

    def __init__(self, sim: Simulation, note: Note, durable: frozenset[str]) -> None:
        self._sim = sim
        self.note = note
        self._durable = durable
        self._complaints: dict[str, None] = {}
        self.seen: Counter[str] = Counter()
        """How much of everything happened."""
        self.topics = TopicPromises(lambda: sim.now, note, self.complain, self.seen)
        self._sends: list[tuple[float, float, Sent]] = []
        """Begun, answered, and what."""
        self._begun: dict[bytes, tuple[float, TopicPartition, str]] = {}
        self._reads: list[tuple[float, Read]] = []
        """Asked for, and what came."""
        self._whole: dict[TopicPartition, Page] = {}
        self._producer_ids: dict[str, Sequence[int]] = {}
        self._last_crash = -1.0
        self._power_cuts: list[float] = []
        self._ends: dict[TopicPartition, int] = {}
        """The largest high watermark seen since the partition could last lose anything."""
        self._asked_starts: dict[TopicPartition, int] = defaultdict(int)
        self._promised_starts: dict[TopicPartition, int] = defaultdict(int)
        self._binding_starts: dict[TopicPartition, int] = {}

    def complain(self, text: str) -> None:
        if text not in self._complaints:
            self.note("WRONG", text)
        self._complaints[text] = None

    def crashed(self, power_loss: bool) -> None:
        self._last_crash = self._sim.now
        self.seen["power cuts" if power_loss else "kills"] += 1
        self.topics.restarted()
        self._binding_starts = dict(self._promised_starts)
        if power_loss:
            self._power_cuts.append(self._sim.now)
            for partition in [partition for partition in self._ends if partition.topic not in self._durable]:
                del self._ends[partition]

    # What clients did and saw

    def sends(self, producer: str, partition: TopicPartition, values: Iterable[bytes]) -> None:
        for value in values:
            self._begun[value] = (self._sim.now, partition, producer)

    def sent(self, sent: Sequence[Sent], producer_ids: Sequence[int]) -> None:
        first = sent[0]
        self.seen["in doubt" if first.outcome is Outcome.UNKNOWN else first.outcome.value] += len(sent)
        self._producer_ids[first.producer] = list(producer_ids)
        self._sends += [(self._begun.pop(each.value)[0], self._sim.now, each) for each in sent]
        text = f"{first.partition} {len(sent)} records from {first.value.rstrip(b'.').decode()}"
        self.note(first.producer, f"{text}: {first.outcome.value} at {first.offset}")

    def read(self, page: Page, partition: TopicPartition, asked: float) -> None:
        self._reads += [(asked, read) for read in page.reads]
        self.seen["records read"] += len(page.reads)
        if asked <= self._last_crash:
            return
        before = self._ends.get(partition, 0)
        if page.high_watermark < before:
            self.complain(f"{partition}: the high watermark went back from {before} to {page.high_watermark}")
        self._ends[partition] = page.high_watermark
        binding = self._binding_starts.get(partition, 0)
        if page.log_start < binding:
            self.complain(f"{partition}: records below {binding} were deleted, and it starts at {page.log_start}")

    def read_whole(self, page: Page, partition: TopicPartition, asked: float) -> None:
        self.read(page, partition, asked)
        self._whole[partition] = page
        self.note("auditor", f"{partition} holds [{page.log_start}, {page.high_watermark})")

    def known_end(self, partition: TopicPartition) -> int:
        return self._ends.get(partition, 0)

    def deletes(self, partition: TopicPartition, offset: int) -> None:
        self._asked_starts[partition] = max(self._asked_starts[partition], offset if offset >= 0 else ENDLESS)

    def deleted(self, partition: TopicPartition, code: Code, low_watermark: int) -> None:
        self.note("admin", f"delete records of {partition} below {low_watermark}: {code.name}")
        if code is Code.NONE:
            self.seen["records deleted"] += low_watermark > self._promised_starts[partition]
            self._promised_starts[partition] = max(self._promised_starts[partition], low_watermark)

    # The verdict

    def judge(self) -> list[str]:
        ids = Counter(each for given in self._producer_ids.values() for each in given)
        for producer_id, times in ids.items():
            if times > 1:
                self.complain(f"producer id {producer_id} was given {times} times")
        for partition in self._whole:
            self._judge_log(partition)
        verdict = judge(self._history())
        wrong = {name: count for name, count in verdict.counts.items() if name not in ("acked", "delivered") and count}
        if not verdict.ok:
            examples = [f"{name}: {getattr(verdict, name)[:3]}" for name in wrong]
            self.complain(f"the audit finds {wrong}\n  " + "\n  ".join(examples))
        return list(self._complaints)

    def _forgiven_until(self, partition: TopicPartition) -> float:
        """Before this moment what was written may have been lost."""
        return self._power_cuts[-1] if self._power_cuts and partition.topic not in self._durable else -1.0

    def _history(self) -> History:
        present = {read.value for page in self._whole.values() for read in page.reads}
        sends = []
        for begun, _, sent in self._sends:
            deleted = 0 <= sent.offset < self._whole[sent.partition].log_start
            may_be_lost = deleted or begun <= self._forgiven_until(sent.partition)
            if sent.outcome is Outcome.ACKED and may_be_lost and sent.value not in present:
                sent = sent._replace(outcome=Outcome.UNKNOWN)
            sends.append(sent)
        for value, (_, partition, producer) in self._begun.items():
            sends.append(Sent(partition, value, producer, Outcome.UNKNOWN))
        reads = [read for at, read in self._reads if at > self._forgiven_until(read.partition)]
        reads += [read for page in self._whole.values() for read in page.reads]
        return History(sends, reads)

    def _judge_log(self, partition: TopicPartition) -> None:
        page = self._whole[partition]
        offsets = [read.offset for read in page.reads]
        expected = list(range(page.log_start, page.high_watermark))
        if offsets != expected:
            gaps = [pair for pair in pairwise(offsets) if pair[1] != pair[0] + 1]
            self.complain(f"{partition}: {expected[:1]}..{expected[-1:]} should be there, gaps at {gaps[:5]}")
        lowest, highest = self._promised_starts[partition], self._asked_starts[partition]
        if not lowest <= page.log_start <= highest:
            self.complain(f"{partition}: starts at {page.log_start}, not in [{lowest}, {highest}]")
        there = set(offsets)
        for asked, read in self._reads:
            binding = read.partition == partition and asked > self._forgiven_until(partition)
            if binding and read.offset >= page.log_start and read.offset not in there:
                self.complain(f"{partition}: offset {read.offset} was read, and is not there any more")
        self._judge_ends(partition, page.log_start)

    def _judge_ends(self, partition: TopicPartition, log_start: int) -> None:
        """A power cut takes the end of a log, not its middle: of what was written between two cuts."""
        present = {read.value for read in self._whole[partition].reads}
        for before, cut in pairwise([-1.0, *self._power_cuts]):
            written = [
                sent
                for begun, answered, sent in self._sends
                if sent.partition == partition and sent.offset >= log_start and before < begun and answered <= cut
            ]
            kept = max((sent.offset for sent in written if sent.value in present), default=-1)
            for sent in written:
                if sent.value not in present and sent.offset < kept:
                    self.complain(f"{partition}: offset {sent.offset} was lost, and {kept} was not")
