"""Carries a balance out beside the pages, a few partitions at a time. There is one at most."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from highwater.client import ClientFailure
from highwater.client.balance_run import MoveFailed, Progress, carry_out
from highwater.client.balance_sight import look
from highwater.console.clients import Clients
from highwater.errors import KafkaError
from highwater.model import NodeId, TopicPartition

AT_A_TIME: Final = 4


class Busy(Exception):
    """A balance is under way."""


class _Stopped(Exception):
    pass


class Mover:
    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._state: dict[str, Any] | None = None

    @property
    def state(self) -> dict[str, Any] | None:
        """None if there was none yet."""
        return self._state

    def start(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Raises Busy."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                raise Busy("a balance is under way already")
            self._stopped.clear()
            self._show("running", len(targets), len(targets))
            work = {tp: [NodeId(each) for each in replicas] for tp, replicas in targets.items()}
            self._thread = threading.Thread(target=self._run, args=(work,), name="console-mover", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """No further move is begun. Those that are under way go on."""
        self._stopped.set()

    def _show(self, state: str, total: int, left: int, error: str | None = None) -> None:
        self._state = {"state": state, "total": total, "left": left, "error": error}

    def _run(self, targets: Mapping[TopicPartition, Sequence[NodeId]]) -> None:
        total = left = len(targets)

        def report(progress: Progress) -> None:
            nonlocal left
            left = progress.waiting
            self._show("running", total, left)

        def pause(seconds: float) -> None:
            if self._stopped.wait(seconds):
                raise _Stopped

        try:
            with self._clients.borrowed() as client:
                held = look(client).partitions
                known = {tp: replicas for tp, replicas in targets.items() if tp in held}
                carry_out(client, held, known, AT_A_TIME, report, pause)
        except _Stopped:
            self._show("stopped", total, left)
        except (KafkaError, ClientFailure, MoveFailed) as failure:
            self._show("failed", total, left, str(failure))
        else:
            self._show("finished", total, 0)
