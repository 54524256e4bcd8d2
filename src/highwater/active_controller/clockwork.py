"""The active controller's timer: it fences silent brokers, elects preferred leaders and appends NoOp records when
idle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from highwater.config import METADATA_MAX_IDLE_INTERVAL_MS, NodeConfig
from highwater.controller.leaders import (
    MAX_ELECTIONS,
    elect_owed,
    elect_unclean,
    rebalance,
    rebalance_interval,
    unclean_interval,
)
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import Pieces
from highwater.wire.codec import Message
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.world import Timer

if TYPE_CHECKING:
    from highwater.active_controller.active_controller import ActiveController

LOOK_SECONDS: Final = 0.5
"""The longest time between two checks for fencings and elections, even if an idle controller writes less often."""
PAUSE_SECONDS: Final = 0.05
"""How long an election waits for a fencing before it tries again."""
_Election = Callable[[MetadataImage, NodeConfig], list[Message]]


class Clockwork:
    """Runs while the controller is active."""

    def __init__(self, controller: ActiveController) -> None:
        self._controller = controller
        self._world = controller.world
        self._timer: Timer | None = None
        self._due = 0.0
        self._rebalance_at = 0.0
        self._unclean_at = 0.0

    def start(self) -> None:
        now = self._world.clock.monotonic()
        self._rebalance_at = now + rebalance_interval(self._controller.config)
        self._unclean_at = now + unclean_interval(self._controller.config)
        self._schedule()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        interval = min(self._idle_interval(), LOOK_SECONDS)
        self._due = self._world.clock.monotonic() + interval
        self._timer = self._world.clock.call_later(interval, self._on_timer)

    def _idle_interval(self) -> float:
        return (self._controller.config.get(METADATA_MAX_IDLE_INTERVAL_MS) or 500) / 1000

    def _on_timer(self) -> None:
        with self._world.failures.boundary("periodic", "the controller's sessions and elections"):
            self._act_by_the_clock()
        self._schedule()

    def _act_by_the_clock(self) -> None:
        now = self._world.clock.monotonic()
        self._controller.watch.fence_silent(self._due, now)
        self._elect_by_the_clock(now)
        speaks_when_idle = self._controller.config.get(METADATA_MAX_IDLE_INTERVAL_MS) > 0
        if speaks_when_idle and now - self._controller.last_append >= self._idle_interval() * 0.9:
            self._controller.decide_alone(self._say_nothing)

    def _say_nothing(self) -> Pieces[None]:
        if self._controller.is_active:
            yield from self._controller.append([NoOpRecord()], "")

    def _elect_by_the_clock(self, now: float) -> None:
        """Elects leaders that are owed. Now and then, elects preferred leaders, and unclean ones for topics that allow
        it."""
        if self._controller.owes_elections:
            self._controller.owes_elections = False
            self._elect_some(elect_owed, "an earlier decision left the partition without a leader")
        if now >= self._rebalance_at:
            self._rebalance_at = now + rebalance_interval(self._controller.config)
            self._elect_some(rebalance, "leadership goes back to preferred replicas")
        if now >= self._unclean_at:
            self._unclean_at = now + unclean_interval(self._controller.config)
            self._elect_some(elect_unclean, "unclean.leader.election.enable allows it")

    def _elect_some(self, elect: _Election, why: str) -> None:
        self._controller.decide_alone(partial(self._electing, elect, why))

    def _electing(self, elect: _Election, why: str) -> Pieces[None]:
        """Holds some elections now. The rest follows in the next turns, before the next interval."""
        if not self._controller.is_active:
            return
        if self._controller.watch.is_fencing:
            self._world.clock.call_later(PAUSE_SECONDS, self._elect_some, elect, why)
            return
        records = elect(self._controller.head, self._controller.config)
        if not records:
            return
        if not (yield from self._controller.append(records, why)):
            self._controller.owes_elections = self._controller.owes_elections or elect is elect_owed
        elif len(records) == MAX_ELECTIONS:
            self._world.clock.call_soon(self._elect_some, elect, why)
