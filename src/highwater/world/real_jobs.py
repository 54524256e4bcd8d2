"""Background jobs: a generator driven to its end in a thread, or in a process of its own where it loops in Python."""

from __future__ import annotations

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
        self._closed: Callable[[], None] | None = None
        self._disk: RealDisk | None = None

    def cancel(self, closed: Callable[[], None] | None = None) -> None:
        with self._ending:
            self._cancelled.set()
            if not self._over:
                self._closed = closed
                return
        if closed is not None:
            self._loop.call_soon(closed)

    def crash(self) -> None:
        """Its disk is dead at its next call; `done` is not called."""
        self._cancelled.set()
        if self._disk is not None:
            self._disk.crash()

    def start(self, executor: Executor, where: Place) -> None:
        executor.submit(self._drive, where)

    def _drive(self, where: Place) -> None:
        try:
            if where == "thread":
                self._drive_thread()
            else:
                self._drive_process(background=where == "background")
        finally:
            with self._ending:
                self._over = True
            if self._closed is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._closed)

    def _drive_thread(self) -> None:
        try:
            self._disk = RealDisk(descriptors=64)
            if self._cancelled.is_set():
                return
            steps, pace = self._job(self._disk, *self._args), Pace(time.monotonic())
            while True:
                step = next(steps)
                self._report(step)
                self._cancelled.wait(pace.pause(step, time.monotonic()))
                if self._cancelled.is_set():
                    steps.close()
                    return
        except StopIteration as end:
            self._finish(end.value)
        except Exception as failed:  # noqa: BLE001 the job's boundary: the failure is the answer
            self._finish(failed)

    def _drive_process(self, background: bool) -> None:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        child = multiprocessing.get_context("spawn").Process(
            target=_run_in_child, args=(theirs, self._job, self._args, background), daemon=True
        )
        child.start()
        theirs.close()
        result: object = None
        try:
            while not self._cancelled.is_set():
                if not ours.poll(0.05):
                    continue
                message = ours.recv()
                if not isinstance(message, Step):
                    result = message[0]
                    break
                self._report(message)
        except EOFError:
            child.join()
            result = WorkerDied(f"process {child.pid}, which did the work, ended with code {child.exitcode}")
        finally:
            if self._cancelled.is_set():
                child.terminate()
            child.join()
            ours.close()
        self._finish(result)

    def _report(self, step: Step) -> None:
        if self._step is not None and not self._cancelled.is_set():
            self._loop.call_soon_threadsafe(self._step, step)

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
    # Nobody may be at work on the node's files when its next life begins.
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
