"""Placement and elections, side by side with Apache Kafka's own classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from highwater.controller.elections import Election, partition_change
from highwater.controller.placement import UsableBroker, place
from highwater.controller.settings import ElectionRules
from highwater.metadata import records
from highwater.metadata.brokers import DIRECTORY_UNASSIGNED
from highwater.metadata.topics import PartitionImage, Recovery
from highwater.model import NO_NODE, NodeId, Uuid
from tests.apache import Ran
from tests.unit.controller.clusters import nodes
from tests.unit.controller.test_placement import SHAPES, shape

HERE = Path(__file__).parent
TOPIC = Uuid(bytes(7) + b"\1" + bytes(7) + b"\1")


class Die:
    """Falls on the same side for ever, so that it does not matter who casts it first. Shuffles as Java does."""

    def __init__(self, side: int) -> None:
        self.side = side

    def randrange(self, start: int) -> int:
        return self.side % start

    def shuffle(self, x: list[int]) -> None:
        for last in range(len(x) - 1, 0, -1):
            other = self.randrange(last + 1)
            x[last], x[other] = x[other], x[last]

    def randbytes(self, n: int) -> bytes:
        return bytes(n)


def ask(tool: Callable[..., Ran], program: str, questions: list[str]) -> list[str]:
    answer = tool(str(HERE / program), input="".join(f"{question}\n" for question in questions))
    assert answer.rc == 0, answer.stderr
    return answer.stdout.splitlines()


def test_placement_equals_kafkas_on_every_small_shape(apache_tool: Callable[..., Ran]) -> None:
    cases = [(die, shape(racks, fenced), factor) for racks, fenced, factor in SHAPES for die in (0, 1, 5)]
    questions = [
        f"{die} 15 {factor} " + ",".join(f"{b.id}/{b.rack or '-'}/{int(b.fenced)}" for b in brokers)
        for die, brokers, factor in cases
    ]
    assert ask(apache_tool, "Placement.java", questions) == [ours(die, brokers, f) for die, brokers, f in cases]


def ours(die: int, brokers: list[UsableBroker], factor: int) -> str:
    return " ".join("-".join(map(str, replicas)) for replicas in list(place(brokers, 15, factor, Die(die))))


def test_partition_changes_equal_kafkas_to_the_byte(apache_tool: Callable[..., Ran]) -> None:
    random = Random(1)
    questions, expected = [], []
    for _ in range(5000):
        partition, live, isr, rules, election, unclean = situation(random)
        questions.append(
            " ".join(
                [
                    listed(partition.replicas),
                    listed(partition.isr),
                    listed(partition.elr),
                    listed(partition.last_known_elr),
                    str(partition.leader),
                    str(int(partition.recovery)),
                    listed(live),
                    listed(isr),
                    str(rules.min_isr),
                    str(int(rules.elr)),
                    election.name,
                    "-" if unclean == NO_NODE else str(unclean),
                ]
            )
        )
        record = partition_change(TOPIC, 0, partition, isr, lambda r, live=live: r in live, rules, election, unclean)
        expected.append("-" if record is None else records.encode(record).hex())
    answers = ask(apache_tool, "Elections.java", questions)
    different = [(q, a, e) for q, a, e in zip(questions, answers, expected, strict=True) if a != e]
    assert not different, different[:3]
    assert len(set(expected)) > 100


def situation(
    random: Random,
) -> tuple[PartitionImage, list[NodeId], list[NodeId], ElectionRules, Election, NodeId]:
    """A partition that may have come to be, and who is alive now."""
    replicas = nodes(*random.sample(range(1, 6), random.randint(1, 4)))
    elr_enabled = random.random() < 0.6
    isr = tuple(replica for replica in replicas if random.random() < 0.6)
    if not isr and not elr_enabled:
        isr = replicas[:1]
    rest = [replica for replica in replicas if replica not in isr]
    elr = tuple(sorted(replica for replica in rest if elr_enabled and random.random() < 0.4))
    leader = random.choice([NO_NODE, *isr])
    partition = PartitionImage(
        replicas=replicas,
        directories=(DIRECTORY_UNASSIGNED,) * len(replicas),
        isr=isr,
        leader=leader,
        leader_epoch=5,
        partition_epoch=7,
        recovery=random.choice(list(Recovery)),
        elr=elr,
        last_known_elr=tuple(random.sample(replicas, 1)) if elr_enabled and random.random() < 0.4 else (),
    )
    gone = random.choice([NO_NODE, *replicas])
    unclean = gone if elr_enabled and random.random() < 0.3 else NO_NODE
    live = [replica for replica in replicas if replica != gone and random.random() < 0.7]
    target = [replica for replica in isr if replica != gone]
    rules = ElectionRules(random.randint(1, len(replicas)), unclean=False, elr=elr_enabled)
    if rules.min_isr == 1:  # Kafka has no more: it forgets the ELR with the bound that it was of
        partition = partition._replace(elr=() if isr else elr[:1])
    return partition, live, target, rules, random.choice(list(Election)), unclean


def listed(ids: tuple[NodeId, ...] | list[NodeId]) -> str:
    return ",".join(map(str, ids)) or "-"
