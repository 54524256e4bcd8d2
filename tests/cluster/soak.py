"""Leaders killed again and again under load: who is next, when, and how long writers had to wait."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from math import ceil

from highwater.client.elections import Election, elect_leaders
from highwater.model import TopicPartition
from tests.cluster.feed import Feed, next_ack
from tests.cluster.stage import Led, Stage, wait_for_moment, wait_until

CONTROLLER_SHARE = 0.3
EARLY_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Kill:
    number: int
    node: int
    partition: int
    was_controller: bool
    isr: int
    """How many were in sync when it came."""
    replicas: int
    seconds: float
    """From the kill to the next acknowledged write to that partition."""

    @property
    def was_early(self) -> bool:
        return self.isr < self.replicas


@dataclass(slots=True)
class Soak:
    """`early` kills come before the last victim is in sync again. Two voters are never down at once: without a
    majority there is no controller that could elect anybody."""

    stage: Stage
    feeds: list[Feed]
    topic: str
    partitions: int
    min_isr: int
    total: int
    seed: int
    pause: float
    """The longest, between a whole cluster and the next kill."""
    say: Callable[[str], None]
    kills: list[Kill] = field(default_factory=list)

    def run(self) -> None:
        draw = random.Random(self.seed)
        returning: int | None = None
        while len(self.kills) < self.total or self._has_more_to_show():
            victim = self._early_victim(draw, returning) if returning is not None else None
            if victim is None:
                wait_until(lambda: self.stage.is_whole(self.topic, self.partitions), "the cluster is whole again")
                wait_for_moment(time.monotonic() + draw.uniform(0, self.pause))
                victim = self._victim(draw)
            if victim is not None:
                returning = self._kill(draw, victim)

    def _has_more_to_show(self) -> bool:
        """Chance, and how soon the nodes are back, decide which node is killed next; but there is an end to it."""
        short = self.controllers_killed < self.controllers_wanted or self.early < self.early_wanted
        return short and len(self.kills) < 3 * self.total

    # Which node is next

    def _behind(self, done: int, share: float) -> bool:
        return done < ceil(share * (len(self.kills) + 1))

    def _victim(self, draw: random.Random) -> Led | None:
        """None if leadership moved meanwhile: then look again."""
        led, controller = self.stage.led(self.topic), self.stage.controller()
        wants_controller = self._behind(self.controllers_killed, CONTROLLER_SHARE) or draw.random() < 0.1
        if wants_controller and all(each.leader != controller for each in led.values()):
            with self.stage.client() as client:
                elect_leaders(client, Election.PREFERRED, None)
            wait_until(lambda: self._leads_something(self.stage.controller()), "the controller leads a partition")
            return None
        chosen = [each for each in led.values() if not wants_controller or each.leader == controller]
        return draw.choice(sorted(chosen, key=lambda each: each.index)) if chosen else None

    def _leads_something(self, node: int | None) -> bool:
        return any(each.leader == node for each in self.stage.led(self.topic).values())

    def _early_victim(self, draw: random.Random, returning: int) -> Led | None:
        """A leader whose partition misses the one that is on its way back, and can miss another; None: not now."""
        if not (self._behind(self.early, EARLY_SHARE) or draw.random() < 0.1):
            return None
        wait_for_moment(time.monotonic() + draw.uniform(0, 0.4))
        led, voters = self.stage.led(self.topic), set(self.stage.voters)
        missing = {replica for each in led.values() for replica in set(each.replicas) - set(each.isr)}
        if missing != {returning} or self.stage.unfenced() | missing != set(self.stage.brokers):
            return None
        chosen = [
            each
            for each in led.values()
            if not each.is_whole and len(each.isr) > self.min_isr and not {returning, each.leader} <= voters
        ]
        return draw.choice(sorted(chosen, key=lambda each: each.index)) if chosen else None

    # What happens to it

    def _kill(self, draw: random.Random, led: Led) -> int:
        was_controller = self.stage.controller() == led.leader
        place = TopicPartition(self.topic, led.index)
        killed_at = self.stage.kill(led.leader)
        wait_for_moment(killed_at + draw.uniform(0, 0.5))
        self.stage.start(led.leader)
        wait_until(lambda: next_ack(self.feeds, place, killed_at), f"{place} is written again")
        acked_at = next_ack(self.feeds, place, killed_at)
        assert acked_at is not None
        number = len(self.kills) + 1
        kill = Kill(
            number, led.leader, led.index, was_controller, len(led.isr), len(led.replicas), acked_at - killed_at
        )
        self.kills.append(kill)
        role = "controller" if was_controller else "broker"
        self.say(
            f"kill {number:3}/{self.total}  node {kill.node} ({role}), leader of {place}, "
            f"ISR {kill.isr}/{kill.replicas}  next write acknowledged after {kill.seconds:.3f} s"
        )
        return led.leader

    # How it went

    @property
    def controllers_wanted(self) -> int:
        return ceil(CONTROLLER_SHARE * self.total)

    @property
    def early_wanted(self) -> int:
        return ceil(EARLY_SHARE * self.total)

    @property
    def controllers_killed(self) -> int:
        return sum(kill.was_controller for kill in self.kills)

    @property
    def early(self) -> int:
        return sum(kill.was_early for kill in self.kills)

    @property
    def seconds(self) -> list[float]:
        return [kill.seconds for kill in self.kills]

    def table(self) -> str:
        rows = [f"{'kills of':28}{'count':>7}{'median':>9}{'p90':>9}{'worst':>9}   (seconds to the next write)"]
        classes: dict[str, Iterable[Kill]] = {
            "the active controller": (kill for kill in self.kills if kill.was_controller),
            "another broker": (kill for kill in self.kills if not kill.was_controller),
            "… before the ISR was whole": (kill for kill in self.kills if kill.was_early),
            "all": self.kills,
        }
        for name, kills in classes.items():
            seconds = sorted(kill.seconds for kill in kills)
            if seconds:
                p90 = seconds[ceil(len(seconds) * 0.9) - 1]
                rows.append(f"{name:28}{len(seconds):7}{statistics.median(seconds):9.3f}{p90:9.3f}{seconds[-1]:9.3f}")
        return "\n".join(rows)

    def report(self) -> dict[str, object]:
        return {"seed": self.seed, "kills": [asdict(kill) for kill in self.kills]}
