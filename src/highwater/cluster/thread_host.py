"""A node in a thread of this process, with its own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from highwater.cluster.host import Decide, Host, NodeState
from highwater.cluster.layout import NodeLayout
from highwater.cluster.steered import SteeredNode
from highwater.model import Endpoint, NodeId
from highwater.world.real import new_event_loop

UNWIND_SECONDS = 1.0
UNWIND_TURNS = 3
"""A connection that is accepted in the turn of the crash meets the dead world in the next turn."""


class ThreadHost(Host):
    """`kill` crashes the node's world: sockets are closed, files stay as they are, and the thread ends."""

    def __init__(self, member: NodeLayout, peers: Mapping[Endpoint, NodeId], decide: Decide) -> None:
        super().__init__(member, peers, decide)
        self._loop: AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._steered: SteeredNode | None = None
        self._settled = threading.Event()
        self._ready = False
        self._crashed = False
        self._fallen = False
        self._go_on = threading.Event()

    def begin(self, commands: Sequence[tuple[str, Any]]) -> None:
        name = f"highwater-node-{self.member.id}"
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop, commands), name=name, daemon=True)
        self.state = NodeState.UP
        self._thread.start()

    def wait_ready(self, seconds: float) -> bool:
        self._settled.wait(seconds)
        return self._ready and self.failure is None

    def stop(self, seconds: float) -> bool:
        stopping: Future[None] = Future()
        self._post(self._begin_stop, stopping)
        try:
            stopping.result(seconds)
        except (TimeoutError, CancelledError):
            self.kill()
            return False
        self._join()
        return True

    def kill(self) -> None:
        self._crashed = True
        self._go_on.set()
        self._post(self._crash)
        self._join()

    def pause(self) -> None:
        paused = threading.Event()
        self._go_on.clear()

        def block() -> None:
            paused.set()
            self._go_on.wait()
            if self._crashed:
                self._crash()

        self._post(block)
        paused.wait()
        self.state = NodeState.PAUSED

    def resume(self) -> None:
        self.state = NodeState.UP
        self._go_on.set()

    def call(self, verb: str, argument: Any, seconds: float) -> Any:
        answer: Future[Any] = Future()

        def obey() -> None:
            if self._steered is None:
                answer.set_exception(ConnectionError("the node is not there yet"))
                return
            try:
                answer.set_result(self._steered.obey(verb, argument))
            except Exception as failed:  # noqa: BLE001 it belongs to the caller, which runs in another thread
                answer.set_exception(failed)

        self._post(obey)
        return answer.result(seconds)

    def send(self, verb: str, argument: Any) -> None:
        def obey() -> None:
            if self._steered is not None:
                self._steered.obey(verb, argument)

        with contextlib.suppress(ConnectionError):
            self._post(obey)

    # --- any thread

    def _post(self, fn: Callable[..., object], *args: object) -> None:
        try:
            if self._loop is None:
                raise ConnectionError(f"node {self.member.id} does not run")
            self._loop.call_soon_threadsafe(fn, *args)
        except RuntimeError as closed:
            if fn == self._crash:
                return
            raise ConnectionError(f"node {self.member.id} has ended") from closed

    def _join(self) -> None:
        self._go_on.set()
        if self._thread is not None:
            self._thread.join()
        self.state = NodeState.DOWN

    # --- the node's thread

    def _run(self, loop: AbstractEventLoop, commands: Sequence[tuple[str, Any]]) -> None:
        asyncio.set_event_loop(loop)
        try:
            self._live(loop, commands)
        finally:
            self._settled.set()
            self._unwind(loop)
            asyncio.set_event_loop(None)
            loop.close()
            self.state = NodeState.DOWN

    def _live(self, loop: AbstractEventLoop, commands: Sequence[tuple[str, Any]]) -> None:
        def arbiter(rules: Sequence[int], settle: Callable[[int | None], None]) -> None:
            settle(self.decide(self.member.id, rules))

        try:
            self._steered = SteeredNode(
                loop, self.member.properties, self.peers, arbiter, self._failed, self._opens_logs
            )
            for verb, argument in commands:
                self._steered.obey(verb, argument)
        except Exception as failed:  # noqa: BLE001 the boundary of the node: the failure is its state
            self._failed(failed)
            return
        starting = loop.create_task(self._steered.start())
        starting.add_done_callback(self._started)
        loop.run_forever()

    def _opens_logs(self) -> None:
        self.opens_logs = True

    def _started(self, starting: asyncio.Task[None]) -> None:
        if starting.cancelled() or self._crashed:
            return
        failed = starting.exception()
        if failed is not None:
            self._failed(failed)
        else:
            self._ready = True
            self._settled.set()

    def _failed(self, why: BaseException) -> None:
        if not self._crashed:
            self.failure = f"{type(why).__name__}: {why}"
            self._crash()

    def _begin_stop(self, stopping: Future[None]) -> None:
        assert self._loop is not None and self._steered is not None

        def stopped(task: asyncio.Task[None]) -> None:
            assert self._loop is not None
            self._crashed = self._fallen = True
            self._loop.stop()
            if task.cancelled():
                stopping.cancel()
            elif (failed := task.exception()) is not None:
                stopping.set_exception(failed)
            else:
                stopping.set_result(None)

        self._loop.create_task(self._steered.stop()).add_done_callback(stopped)

    def _crash(self) -> None:
        if self._fallen:
            return
        self._crashed = self._fallen = True
        if self._loop is not None:
            self._loop.set_exception_handler(lambda loop, context: None)
            self._loop.stop()
        if self._steered is not None:
            self._steered.world.crash()

    def _unwind(self, loop: AbstractEventLoop) -> None:
        """Lets the cancelled tasks end, in a world where nothing can be done any more, and ends the threads."""
        loop.set_exception_handler(lambda loop, context: None)
        if self._steered is not None:
            # A client of the status page may keep a connection open. uvloop warns if one is open when the loop closes,
            # and if warnings are errors, it then waits for ever.
            self._steered.world.crash()
        for _ in range(UNWIND_TURNS):
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=UNWIND_SECONDS))
            loop.run_until_complete(asyncio.sleep(0))
        if self._steered is not None:
            self._steered.world.close()
