"""The faults that a run may have: families of verbs, profiles that choose among them, and a schedule drawn from a
profile."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from highwater.sim.faults.fault import ANY, CONTROLLER, LEADER, Fault
from highwater.sim.knobs import Knobs
from highwater.sim.shape import Leaning


class Verb(NamedTuple):
    weight: float
    least: float = 0.0
    """The duration in seconds."""
    most: float = 0.0


FAMILIES: Mapping[str, Mapping[str, Verb]] = {
    "processes": {
        "kill": Verb(5, 0.05, 4.0),
        "cut the power of": Verb(4, 0.05, 3.0),
        "tear a write of": Verb(4, 0.05, 2.0),
        "kill after a write of": Verb(2, 0.05, 2.0),
        "kill twice": Verb(3, 0.02, 1.0),
        "kill before it registers": Verb(3, 0.02, 0.5),
        "cut the power before it registers": Verb(2, 0.02, 0.5),
        "pause": Verb(4, 0.02, 4.0),
        "turn the clock of": Verb(1),
        "cut all power of": Verb(1, 0.05, 0.5),
        "restart": Verb(3),
        "roll all, beginning with": Verb(1),
    },
    "links": {
        "cut a link of": Verb(3, 0.1, 4.0),
        "cut one way from": Verb(3, 0.1, 4.0),
        "isolate": Verb(3, 0.1, 4.0),
        "isolate from nodes": Verb(3, 0.1, 4.0),
        "slow a link of": Verb(3, 0.2, 3.0),
        "reset the connections of": Verb(2),
    },
    "disks": {
        "fill the disk of": Verb(4, 0.2, 3.0),
        "take the descriptors of": Verb(3, 0.1, 2.0),
        "fail a write of": Verb(3, 0.3, 2.0),
        "fail a write of metadata of": Verb(2, 0.3, 2.0),
        "fail a sync of": Verb(4, 0.3, 2.0),
        "fail a truncation of": Verb(2, 0.5, 4.0),
        "fail a creation of": Verb(2, 0.5, 4.0),
        "fail a renaming of": Verb(2, 0.5, 4.0),
        "fail a read of": Verb(3, 0.3, 3.0),
        "slow the disk of": Verb(2, 0.3, 3.0),
    },
    "operations": {
        "delete records of": Verb(4),
        "retain less of": Verb(1),
        "change a setting of": Verb(2),
        "elect preferred leaders for": Verb(2),
        "elect uncleanly for": Verb(0.5),
        "create or delete a topic beside": Verb(6),
        "add partitions beside": Verb(2),
        "delete records beside": Verb(2),
    },
    "bounds": {
        "change min.insync.replicas of": Verb(1),
    },
    "moves": {
        "move a partition of": Verb(4),
        "cancel a move of": Verb(1),
    },
    "losses": {
        "damage bytes of": Verb(4, 0.05, 1.0),
        "replace the disk of": Verb(2, 0.05, 1.0),
        "spoil a file of": Verb(6, 0.05, 1.0),
    },
}


class Profile(NamedTuple):
    families: Mapping[str, float]
    """The probability that a seed has each family of faults."""
    more: Mapping[str, float] = MappingProxyType({})
    """Verbs that every seed with their family has, each with a factor for how often."""
    leaning: Leaning = Leaning()
    most: int = 9
    """The number of faults of a seed."""


COMBINED, BROKER_APART = (3, 3, 0), (4, 3, 0)
LAME = Knobs(flush_round=(0.01, 0.06))
"""Syncs take so long that responses to followers contain many batches."""
COLD = Knobs(cold_read=0.9, warm_tail=0, job_step=(0.0002, 0.008))
SLOW = Knobs(slow_code=0.3)
IMPATIENT = {"broker.session.timeout.ms": "400", "broker.heartbeat.interval.ms": "100"}
"""A leader that is cut off for a moment is deposed, and has a tail to truncate."""
PROFILES: Mapping[str, Profile] = {
    "all": Profile({"processes": 0.7, "links": 0.5, "disks": 0.5, "losses": 0.35, "operations": 0.4}),
    "crashes": Profile({"processes": 1.0, "links": 1.0}),
    "disks": Profile({"processes": 0.5, "links": 0.3, "disks": 1.0}),
    "operations": Profile({"processes": 0.7, "links": 0.4, "disks": 0.3, "operations": 1.0, "moves": 0.6}),
    "losses": Profile({"processes": 0.5, "disks": 0.3, "losses": 1.0}),
    # Each of these goes after one kind of mistake
    "rot": Profile({"losses": 1.0, "processes": 0.3}, {"damage bytes of": 6}, Leaning(nodes=COMBINED, table=True)),
    "spoiled-files": Profile(
        {"losses": 1.0, "processes": 0.3},
        {"spoil a file of": 10},
        Leaning(settings={"log.index.interval.bytes": "200"}),
    ),
    "incarnations": Profile(
        {"processes": 1.0},
        {"cut the power of": 2, "cut the power before it registers": 20},
        Leaning(nodes=COMBINED, flushed=False, writers=4),
        most=14,
    ),
    "short-room": Profile(
        {"disks": 1.0},
        {"fill the disk of": 2, "fail a write of": 12, "fail a sync of": 2},
        Leaning(nodes=COMBINED, flushed=True, knobs=LAME, writers=8),
        most=14,
    ),
    "metadata": Profile(
        {"disks": 1.0, "operations": 1.0},
        {"fill the disk of": 2, "fail a write of metadata of": 30, "add partitions beside": 4},
        most=14,
    ),
    "truncations": Profile(
        {"disks": 1.0},
        {"fail a truncation of": 80},
        Leaning(nodes=COMBINED, writers=6),
        most=4,
    ),
    "cold-reads": Profile(
        {"links": 1.0, "operations": 0.3},
        {"isolate from nodes": 20, "retain less of": 4},
        Leaning(nodes=COMBINED, knobs=COLD, writers=4, seekers=3, settings=IMPATIENT),
    ),
    "slow-code": Profile({"processes": 0.5, "links": 0.5}, leaning=Leaning(nodes=COMBINED, knobs=SLOW, writers=4)),
    "failed-logs": Profile(
        {"operations": 1.0, "disks": 1.0},
        {"create or delete a topic beside": 6, "fail a sync of": 20},
        Leaning(nodes=COMBINED),
    ),
    "bounds": Profile(
        {"processes": 1.0, "links": 1.0, "bounds": 1.0},
        {"isolate from nodes": 4, "cut a link of": 2, "kill": 2},
        Leaning(nodes=BROKER_APART, settings=IMPATIENT, writers=4),
        most=14,
    ),
    "deletions": Profile(
        {"operations": 1.0, "losses": 1.0},
        {"delete records of": 6, "replace the disk of": 6},
        Leaning(nodes=BROKER_APART),
    ),
    "creations": Profile(
        {"operations": 1.0, "disks": 1.0, "processes": 0.5},
        {
            "create or delete a topic beside": 6,
            "delete records beside": 4,
            "fill the disk of": 2,
            "take the descriptors of": 4,
            "fail a creation of": 8,
            "fail a renaming of": 8,
        },
        Leaning(nodes=COMBINED),
        most=14,
    ),
}
USUAL = "all"


OPERATIONS = ("operations", "bounds", "moves")


def draw_schedule(random: Random, profile: Profile, seconds: float) -> list[Fault]:
    """Swarm testing: each seed has some of the families, and of these some of the verbs, at different rates. What an
    operator does is added to the faults."""
    count = random.randint(2, profile.most)
    families = [name for name, chance in profile.families.items() if random.random() < chance]
    harmful = [name for name in families if name not in OPERATIONS] or ["processes"]
    verbs = {verb: each for name in harmful for verb, each in FAMILIES[name].items()}
    faults = _drawn(random, verbs, profile.more, seconds, count)
    for name in (each for each in families if each in OPERATIONS):
        faults += _drawn(random, FAMILIES[name], profile.more, seconds, random.randint(4, 12))
    return sorted(faults)


def _drawn(
    random: Random, verbs: Mapping[str, Verb], more: Mapping[str, float], seconds: float, count: int
) -> list[Fault]:
    chosen = [verb for verb in verbs if random.random() < 0.6 or verb in more] or [next(iter(verbs))]
    faults = []
    for verb in random.choices(chosen, [verbs[verb].weight * more.get(verb, 1) for verb in chosen], k=count):
        _, least, most = verbs[verb]
        target = random.choices((ANY, LEADER, CONTROLLER), (3, 4, 2))[0]
        lasts = least * (most / least) ** random.random() if least else 0.0
        faults.append(Fault(random.uniform(0.3, seconds), verb, target, lasts, random.random()))
    return faults
