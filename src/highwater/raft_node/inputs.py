"""The inputs of the quorum machine: it gets one at a time, and none while the node writes to disk what the last one
asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from highwater.quorum import Ready
from highwater.world import World

Answer = Callable[[Any], None]
MOST_WAITING: Final = 100
"""The most inputs that wait while the node writes to disk. Beyond that, requests of peers are given up."""


class _Input(NamedTuple):
    step: Callable[[float], Ready]
    answer: Answer | None = None
    give_up: Callable[[], None] | None = None


class Inputs:
    """`take` carries out what follows from an input, or blocks the inputs until that is done. `idle` is called when
    there is nothing more to feed now. `failed` is called if an input cannot be carried out."""

    def __init__(
        self,
        world: World,
        take: Callable[[Ready, Answer | None], None],
        idle: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._world = world
        self._take = take
        self._idle = idle
        self._failed = failed
        self._waiting: deque[_Input] = deque()
        """The inputs that are not carried out yet. The first one is under way."""
        self._works: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self.is_stopped = False

    @property
    def is_blocked(self) -> bool:
        return bool(self._works)

    def feed(
        self,
        step: Callable[[float], Ready],
        answer: Answer | None = None,
        give_up: Callable[[], None] | None = None,
    ) -> None:
        """Feeds one input at a time. An input that comes while another is carried out has to wait. Requests of peers
        can be given up: while the disk is full they wait for long, and the peers ask again and again."""
        self._waiting.append(_Input(step, answer, give_up))
        if not self._works and len(self._waiting) == 1:
            self._run()
        elif self._works and len(self._waiting) > MOST_WAITING:
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        for at, waiting in enumerate(self._waiting):
            if waiting.give_up is not None:
                del self._waiting[at]
                waiting.give_up()
                break

    def add(self, step: Callable[[float], Ready]) -> None:
        """Adds an input that follows from the one that is carried out now."""
        self._waiting.append(_Input(step))

    def block(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Feeds nothing until `work` is done. It runs after the work that is under way: otherwise the installation of a
        snapshot could overtake the storing of a vote."""
        self._works.append(work)
        if len(self._works) == 1:
            self._world.spawn("quorum", self._work_off())

    def stop(self) -> None:
        """Nothing more is fed."""
        self.is_stopped = True

    def _run(self) -> None:
        while self._waiting and not self._works and not self.is_stopped:
            first = self._waiting[0]
            try:
                self._take(first.step(self._world.clock.monotonic()), first.answer)
            except Exception as failed:  # noqa: BLE001 a broken invariant, or a record that cannot be applied
                self._failed(failed)
                return
            self._waiting.popleft()
        self._idle()

    async def _work_off(self) -> None:
        try:
            while self._works:
                await self._works[0]()
                self._works.popleft()
        except Exception as failed:  # noqa: BLE001 a node cannot go on without its metadata
            self._failed(failed)
            return
        self._run()
