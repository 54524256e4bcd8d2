"""Background jobs: a generator driven to its end in a thread, or in a process of its own where it loops in Python."""

from __future__ import annotations

import multiprocessing
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from multiprocessing.connection import Connection
from typing import Any

from highwater.world import Step
from highwater.world.real_disk import RealDisk

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
        self._disk: RealDisk | None = None

    def cancel(self) -> None:
        self._cancelled.set()

    def crash(self) -> None:
        """Its disk is dead at its next call; `done` is not called."""
        self._cancelled.set()
        if self._disk is not None:
            self._disk.crash()

    def start(self, executor: Executor, where: str) -> None:
        executor.submit(self._drive_process if where == "process" else self._drive_thread)

    def _drive_thread(self) -> None:
        try:
            self._disk = RealDisk(descriptors=64)
            if self._cancelled.is_set():
                return
            steps = self._job(self._disk, *self._args)
            while True:
                self._report(next(steps))
                if self._cancelled.is_set():
                    steps.close()
                    return
        except StopIteration as end:
            self._finish(end.value)
        except Exception as failed:  # noqa: BLE001 the job's boundary: the failure is the answer
            self._finish(failed)

    def _drive_process(self) -> None:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        child = multiprocessing.get_context("spawn").Process(
            target=_run_in_child, args=(theirs, self._job, self._args), daemon=True
        )
        child.start()
        theirs.close()
        result: object = EOFError("the job's process died")
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
            result = EOFError(f"the job's process ended with code {child.exitcode}")
        finally:
            if self._cancelled.is_set():
                child.terminate()
            child.join()
            ours.close()
        self._finish(result)

    def _report(self, step: Step) -> None:
        if self._step is not None and not self._cancelled.is_set():
            self._loop.call_soon_threadsafe(self._step, step)
        if step.pause:
            self._cancelled.wait(step.pause)

    def _finish(self, result: object) -> None:
        if not self._cancelled.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish_on_loop, result)

    def _finish_on_loop(self, result: object) -> None:
        if not self._cancelled.is_set():
            self._done(result)


def _run_in_child(pipe: Connection, job: Generate, args: tuple[object, ...]) -> None:
    try:
        steps = job(RealDisk(descriptors=256), *args)
        while True:
            step = next(steps)
            pipe.send(step)
            if step.pause:
                time.sleep(step.pause)
    except StopIteration as end:
        pipe.send((end.value,))
    except Exception as failed:  # noqa: BLE001 the job's boundary: the failure is the answer
        pipe.send((failed,))
