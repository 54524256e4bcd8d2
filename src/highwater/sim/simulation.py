"""A whole simulated run: machines, network, time, faults, and the trace of what happened."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from highwater.sim.clock import Wall
from highwater.sim.knobs import Knobs, Range
from highwater.sim.loop import TimeLimit, seeded_loop
from highwater.sim.net import Network
from highwater.sim.process import Process
from highwater.sim.storage import Storage
from highwater.sim.trace import Event, Phase, Predicate, Trace, Watcher
from highwater.sim.world import OnFailure, SimWorld, fork

T = TypeVar("T")
POLL = 0.002


class NodeFailed(AssertionError):
    """Code of a live node raised an exception that was not caught."""


@dataclass(eq=False)
class CrashPoint:
    """Where a node crashes: at the nth matching event, before, during or after its effect."""

    node: str
    matches: Predicate
    nth: int
    phase: Phase
    power_loss: bool
    seen: int = 0
    hit: Event | None = None


@dataclass
class _Node:
    """A machine, and the present life of its node."""

    storage: Storage
    wall: Wall = field(default_factory=Wall)
    life: int = 0
    process: Process | None = None
    on_failure: OnFailure | None = None


class Simulation:
    """The seed decides everything. Use it as a context manager: at the end it closes what crashed nodes left behind."""

    def __init__(self, seed: int, knobs: Knobs | None = None) -> None:
        self.seed = seed
        self.knobs = knobs or Knobs()
        self.loop = seeded_loop(fork(seed, "loop"))
        self.loop.on_exception = self._on_exception
        self.trace = Trace(self.loop.time)
        self.network = Network(self.loop, fork(seed, "network"), self.knobs)
        self.failures: list[tuple[str, str, BaseException | None]] = []
        self.forgives = False
        """Whether a node may have an unexpected error that one of its boundaries stops; otherwise that is a finding."""
        self._nodes: dict[str, _Node] = {}
        self._dead: list[Process] = []

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills the living nodes, and closes every coroutine and job that is left, without a warning."""
        for name, node in self._nodes.items():
            if node.process is not None and node.process.alive:
                self._kill(name, node.process, power_loss=False)
        self.loop.kill(self.loop.root)
        for process in (*self._dead, self.loop.root):
            self.loop.bury(process)
        self._dead.clear()
        self.loop.close()

    # Nodes

    def world(self, name: str, on_failure: OnFailure | None = None) -> SimWorld:
        """Starts the first life of a node. `on_failure` is called for tasks that fail; without it the run fails."""
        if name in self._nodes:
            raise ValueError(f"{name} has been started before: restart it")
        self._nodes[name] = _Node(Storage(fork(self.seed, name, "storage")), on_failure=on_failure)
        return self._start(name)

    def restart(self, name: str) -> SimWorld:
        """A new life on the same disk. A node that still runs is killed first."""
        self.crash(name, power_loss=False)
        return self._start(name)

    def crash(self, name: str, power_loss: bool = True) -> None:
        """Like kill -9; or, with a power cut, the disk keeps only synced data, and no connection is closed. A power cut
        of a node that was killed before loses what its kernel still had in memory."""
        node = self._nodes[name]
        if node.process is not None and node.process.alive:
            self._kill(name, node.process, power_loss)
        elif power_loss and name not in self.network.dark:
            self.trace.record(name, "power cut")
            self.network.dark.add(name)
            node.storage.lose_power()

    def is_alive(self, name: str) -> bool:
        process = self._nodes[name].process
        return process is not None and process.alive

    def storage(self, name: str) -> Storage:
        """The node's disk, for faults and checks."""
        return self._nodes[name].storage

    def pause(self, name: str) -> None:
        """Like SIGSTOP: the node does not run, but its kernel still takes connections and bytes."""
        self.trace.record(name, "pause")
        self.loop.pause(self._living(name))

    def resume(self, name: str) -> None:
        self.trace.record(name, "resume")
        self.loop.resume(self._living(name))

    def jump_clock(self, name: str, seconds: float) -> None:
        self.trace.record(name, "jump", note=repr(seconds))
        self._nodes[name].wall.jump(seconds)

    def drift_clock(self, name: str, rate: float) -> None:
        self.trace.record(name, "drift", note=repr(rate))
        self._nodes[name].wall.drift(self.loop.time(), rate)

    def _start(self, name: str) -> SimWorld:
        node = self._nodes[name]
        node.life += 1
        process = node.process = Process(name, node.life, self.trace)
        self.trace.record(name, "start", note=str(node.life))
        node.storage.restart()
        self.network.boot(name)
        return SimWorld(
            process,
            self.seed,
            self.knobs,
            self.loop,
            self.network,
            node.storage,
            node.wall,
            crash=lambda: self._kill(name, process, power_loss=False),
            on_failure=node.on_failure or (lambda task, error: self._note_failure(name, task, error)),
            on_contained=lambda where, error: self._note_contained(name, where, error),
        )

    def _living(self, name: str) -> Process:
        process = self._nodes[name].process
        if process is None or not process.alive:
            raise ValueError(f"{name} is not running")
        return process

    def _kill(self, name: str, process: Process, power_loss: bool) -> None:
        if not process.alive:
            return
        self.trace.record(name, "crash", note="power" if power_loss else "process")
        self.loop.kill(process)
        self._dead.append(process)
        self.network.bury(process, power_loss)
        if power_loss:
            self._nodes[name].storage.lose_power()
        for callback in tuple(process.on_crash):
            callback()

    # Network faults

    def cut(self, a: str, b: str, one_way: bool = False) -> None:
        """Holds all bytes between two nodes, or only those from `a` to `b`, until the link is healed."""
        self.trace.record(a, "cut", b, "one way" if one_way else "")
        self.network.link(a, b).cut = True
        if not one_way:
            self.network.link(b, a).cut = True

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        """Ends cuts, stalls and slowness between two nodes, of one node, or everywhere."""
        self.trace.record(a or "", "heal", b or "")
        self.network.heal(a, b)

    def slow(self, a: str, b: str, delay: Range) -> None:
        """Sets the seconds that bytes take between the nodes, in each direction."""
        self.trace.record(a, "slow", b, repr(delay))
        self.network.link(a, b).delay = self.network.link(b, a).delay = delay

    def stall(self, a: str, b: str, seconds: float) -> None:
        """Nothing arrives between two nodes for this many seconds."""
        self.trace.record(a, "stall", b, repr(seconds))
        for link in (self.network.link(a, b), self.network.link(b, a)):
            link.stalled_until = self.loop.time() + seconds

    def reset(self, a: str, b: str) -> None:
        self.trace.record(a, "reset", b)
        self.network.reset(a, b)

    # Events

    @property
    def trace_hash(self) -> str:
        return self.trace.digest

    def on_event(self, watcher: Watcher) -> Callable[[], None]:
        """Shows every operation on the world to `watcher`, in its phases. Returns a function that ends this."""
        self.trace.watchers.append(watcher)
        return lambda: self.trace.watchers.remove(watcher)

    def crash_at(
        self, node: str, matches: Predicate, nth: int = 1, phase: Phase = "before", power_loss: bool = True
    ) -> CrashPoint:
        """Crashes the node at the nth matching event. Only appends have a phase `during`: a part of the bytes is
        written."""
        point = CrashPoint(node, matches, nth, phase, power_loss)

        def watch(event: Event) -> None:
            if event.phase == phase and event.node == node and point.hit is None and matches(event):
                point.seen += 1
                if point.seen == nth:
                    point.hit = event
                    stop()
                    self.crash(node, power_loss)

        stop = self.on_event(watch)
        return point

    def at(self, when: float, action: Callable[..., object], *args: object) -> None:
        """Does something to the world at a virtual second: one line of a fault schedule."""
        self.loop.call_at(when, action, *args, context=self.loop.root.context())

    # Running

    @property
    def now(self) -> float:
        return self.loop.time()

    def run(
        self,
        main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]],
        until: Callable[[], bool] | None = None,
        limit: float = 600.0,
    ) -> T:
        """Runs the scenario to its end, and then until `until` holds. Raises TimeLimit after `limit` virtual
        seconds."""
        coroutine = main() if callable(main) else main
        self.loop.limit = self.now + limit
        try:
            result: T = self.loop.run_until_complete(coroutine)
            if until is not None:
                self.loop.run_until(until)
        finally:
            self.loop.limit = None
        self._raise_failures()
        return result

    def advance(self, seconds: float) -> None:
        """Lets virtual time pass."""
        self.loop.run_to(self.now + seconds)
        self._raise_failures()

    async def until(self, condition: Callable[[], bool], limit: float = 60.0) -> None:
        """Waits in a scenario until `condition` holds. Raises TimeLimit if it does not in time."""
        deadline = self.now + limit
        while not condition():
            if self.now >= deadline:
                raise TimeLimit(f"the condition did not hold within {limit} s")
            await self.sleep(POLL)

    async def sleep(self, seconds: float) -> None:
        woken = self.loop.create_future()
        self.loop.call_later(seconds, _wake, woken, context=self.loop.root.context())
        await woken

    def _note_failure(self, node: str, what: str, error: BaseException | None) -> None:
        self.failures.append((node, what, error))

    def _note_contained(self, node: str, where: str, error: BaseException) -> None:
        if not self.forgives:
            self._note_failure(node, where, error)

    def _on_exception(self, process: Process, context: dict[str, Any]) -> None:
        self._note_failure(process.name, str(context.get("message")), context.get("exception"))

    def _raise_failures(self) -> None:
        if self.failures:
            node, what, error = self.failures[0]
            raise NodeFailed(f"{node or 'the scenario'}: {what}: {error!r} ({len(self.failures)} in all)") from error


def _wake(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)
