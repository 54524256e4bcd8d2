"""Background jobs: a generator that runs to its end in a thread, or in its own process for long computations in
Python."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from multiprocessing.connection import Connection, wait
from typing import Any

from highwater.world import Place, Step, WorkerDied
from highwater.world.jobs import Pace
from highwater.world.real_disk import RealDisk

MOST_PATIENT = 19
PR_SET_PDEATHSIG = 1
Generate = Callable[..., Generator[Step, None, Any]]


class RealJob:
    def __init__(
        self,
        loop: AbstractEventLoop,
        job: Generate,
        args: tuple[object, ...],
        done: Callable[[Any], None],
        step: Callable[[Step], None] | None,
    ) -> None:
        self._loop = loop
        self._job = job
        self._args = args
        self._done = done
        self._step = step
        self._cancelled = threading.Event()
        self._ending = threading.Lock()
        self._over = False
        self._at_work = self._crashed = False
        self._closed: Callable[[], None] | None = None
        self._disk: RealDisk | None = None
        self._steps: Generator[Step, None, Any] | None = None

    def cancel(self, closed: Callable[[], None] | None = None) -> None:
        with self._ending:
            self._cancelled.set()
            if not self._over:
                self._closed = closed
                return
        if closed is not None:
            self._loop.call_soon(closed)

    def crash(self) -> None:
        """The job's disk is dead at its next call, and `done` is not called. A write that is under way still goes to
        its own file: if its descriptor were closed now, the number could belong to another file at once."""
        self._crashed = True
        self._cancelled.set()
        if self._disk is not None:
            self._disk.die()
            if not self._at_work:
                self._disk.crash()

    def start(self, executor: Executor, where: Place, turn: float | None = None) -> None:
        """If `turn` is given, the job goes to the end of the queue after that many seconds."""
        executor.submit(self._drive, executor, where, turn)

    def _drive(self, executor: Executor, where: Place, turn: float | None) -> None:
        try:
            if where in ("process", "background"):
                self._drive_process(background=where == "background")
            elif not self._drive_thread(turn):
                with contextlib.suppress(RuntimeError):  # no more turns: the world is closing
                    executor.submit(self._drive, executor, where, turn)
                    return
                self._close()
        except Exception as failed:  # noqa: BLE001 the job's boundary: the failure is the answer
            self._finish(failed)
        with self._ending:
            self._over = True
        if self._closed is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closed)

    def _drive_thread(self, turn: float | None) -> bool:
        """False if the turn is over and the job is not."""
        self._at_work = True
        try:
            return self._take_turn(turn)
        finally:
            self._at_work = False
            if self._crashed and self._disk is not None:
                self._disk.crash()

    def _take_turn(self, turn: float | None) -> bool:
        if self._cancelled.is_set():
            return self._close()
        begun = time.monotonic()
        if self._steps is None:
            self._disk = RealDisk(descriptors=64)
            if self._crashed:
                self._disk.die()
            self._steps, self._pace = self._job(self._disk, *self._args), Pace(begun)
        try:
            while True:
                step = next(self._steps)
                self._report(step)
                self._cancelled.wait(self._pace.pause(step, time.monotonic()))
                if self._cancelled.is_set():
                    return self._close()
                if turn is not None and time.monotonic() - begun >= turn:
                    return False
        except StopIteration as end:
            self._finish(end.value)
        return True

    def _close(self) -> bool:
        if self._steps is not None:
            self._steps.close()
        return True

    def _drive_process(self, background: bool) -> None:
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        child = spawning.Process(target=_run_in_child, args=(theirs, self._job, self._args, background), daemon=True)
        with ours:
            try:
                with theirs:
                    child.start()
            except OSError as failed:
                raise WorkerDied(f"no process could be started for the work: {failed}") from failed
            try:
                result = self._result_of(ours)
            except (EOFError, OSError) as failed:  # between two messages, or in the middle of one
                child.join()
                died = f"process {child.pid}, which did the work, ended with code {child.exitcode}"
                raise WorkerDied(died) from failed
            finally:
                if self._cancelled.is_set():
                    child.terminate()
                ours.close()  # no process reads from it any more, so the job must not wait for that
                child.join()
        self._finish(result)

    def _result_of(self, child: Connection) -> object:
        while not self._cancelled.is_set():
            if not child.poll(0.05):
                continue
            message = child.recv()
            if not isinstance(message, Step):
                return message[0]
            self._report(message)
        return None

    def _report(self, step: Step) -> None:
        if self._step is not None and not self._cancelled.is_set():
            self._loop.call_soon_threadsafe(self._step_on_loop, self._step, step)

    def _step_on_loop(self, on_step: Callable[[Step], None], step: Step) -> None:
        if not self._cancelled.is_set():
            on_step(step)

    def _finish(self, result: object) -> None:
        if not self._cancelled.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish_on_loop, result)

    def _finish_on_loop(self, result: object) -> None:
        if not self._cancelled.is_set():
            self._done(result)


def _run_in_child(pipe: Connection, job: Generate, args: tuple[object, ...], background: bool) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if background:
        os.nice(MOST_PATIENT)
    # No job may work on the node's files when the next process of the node begins.
    parent = multiprocessing.parent_process()
    assert parent is not None
    pace = Pace(time.monotonic())
    try:
        steps = job(RealDisk(descriptors=256), *args)
        while True:
            step = next(steps)
            pipe.send(step)
            if wait([parent.sentinel], pace.pause(step, time.monotonic())):
                return
    except StopIteration as end:
        pipe.send((end.value,))
    except Exception as failed:  # noqa: BLE001 the job's boundary: the failure is the answer
        pipe.send((failed,))
