"""Which faults a run may have: families of verbs, profiles that choose among them, and a schedule drawn from one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from highwater.sim.faults.fault import ANY, CONTROLLER, LEADER, Fault


class Verb(NamedTuple):
    weight: float
    least: float = 0.0
    """Seconds that it lasts."""
    most: float = 0.0


FAMILIES: Mapping[str, Mapping[str, Verb]] = {
    "processes": {
        "kill": Verb(5, 0.05, 4.0),
        "cut the power of": Verb(4, 0.05, 3.0),
        "tear a write of": Verb(4, 0.05, 2.0),
        "kill after a write of": Verb(2, 0.05, 2.0),
        "kill twice": Verb(3, 0.02, 1.0),
        "kill before it registers": Verb(3, 0.02, 0.5),
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
    },
    "losses": {
        "damage bytes of": Verb(4, 0.05, 1.0),
        "replace the disk of": Verb(2, 0.05, 1.0),
    },
}
PROFILES: Mapping[str, Mapping[str, float]] = {
    # for each profile: families, and how often a seed of it has them at all
    "all": {"processes": 0.7, "links": 0.5, "disks": 0.5, "losses": 0.35, "operations": 0.4},
    "crashes": {"processes": 1.0, "links": 1.0},
    "disks": {"processes": 0.5, "links": 0.3, "disks": 1.0},
    "operations": {"processes": 0.7, "links": 0.4, "disks": 0.3, "operations": 1.0},
    "losses": {"processes": 0.5, "disks": 0.3, "losses": 1.0},
}
USUAL = "all"


OPERATIONS = "operations"


def draw_schedule(random: Random, profile: str, seconds: float, count: int) -> list[Fault]:
    """Swarm: each seed has some of the families, of these some of the verbs, and more or less of them. What an operator
    does comes on top of `count` faults."""
    families = [name for name, chance in PROFILES[profile].items() if random.random() < chance]
    harmful = [name for name in families if name != OPERATIONS] or ["processes"]
    faults = _drawn(random, {verb: each for name in harmful for verb, each in FAMILIES[name].items()}, seconds, count)
    if OPERATIONS in families:
        faults += _drawn(random, FAMILIES[OPERATIONS], seconds, random.randint(4, 12))
    return sorted(faults)


def _drawn(random: Random, verbs: Mapping[str, Verb], seconds: float, count: int) -> list[Fault]:
    chosen = [verb for verb in verbs if random.random() < 0.6] or [next(iter(verbs))]
    faults = []
    for verb in random.choices(chosen, [verbs[verb].weight for verb in chosen], k=count):
        _, least, most = verbs[verb]
        whom = random.choices((ANY, LEADER, CONTROLLER), (3, 4, 2))[0]
        lasts = least * (most / least) ** random.random() if least else 0.0
        faults.append(Fault(random.uniform(0.3, seconds), verb, whom, lasts, random.random()))
    return faults
