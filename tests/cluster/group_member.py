"""A process with members of a group, made with one of the clients, and the handle by which a test holds it.

What the process says is in `tests/cluster/group_process.py`. The end of its input is its order to leave; to pause or
to kill it is up to the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import NamedTuple

CLIENTS = ("confluent", "kafka-python", "aiokafka")
SESSION_MS = 5000
"""A member that stood still or died is missed for so long: longer than a busy machine holds up one that lives."""
LONG_SESSION_MS = 30_000
"""Where nobody is to be missed."""


class Claim(NamedTuple):
    """What a member says it owns in a generation."""

    generation: int
    partition: int
    member_id: str


class Member:
    """One member, or `count` of them that live and die together. As a context manager: the end kills it."""

    def __init__(
        self,
        client: str,
        bootstrap: str,
        group: str,
        topic: str,
        assignor: str = "range",
        session_ms: int = SESSION_MS,
        count: int = 1,
    ) -> None:
        self.client = client
        self.seen: set[tuple[int, int]] = set()
        """Records that it has processed, if not committed."""
        self.processed: list[tuple[int, int]] = []
        """Records that it has processed and then committed."""
        self.claims: set[Claim] = set()
        self.revoked = 0
        """How many times partitions were taken from it."""
        self._held: dict[int, frozenset[int]] = {}
        arguments = (client, bootstrap, group, topic, assignor, str(session_ms), str(count))
        command = [sys.executable, "-m", "tests.cluster.group_process", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    @property
    def assigned(self) -> frozenset[int]:
        return frozenset().union(*self._held.values())

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                said = json.loads(line)
            except json.JSONDecodeError:
                assert self._process.wait(30) == -signal.SIGKILL, f"{self.client} said {line!r}"
                return
            if "seen" in said:
                self.seen |= set(map(tuple, said["seen"]))
            elif "committed" in said:
                self.processed += map(tuple, said["committed"])
            else:
                self._hold(said["member"], said["holds"], said["generation"], said["id"])

    def _hold(self, member: int, partitions: list[int], generation: int, member_id: str) -> None:
        held = frozenset(partitions)
        self.revoked += bool(self._held.get(member, frozenset()) - held)
        self._held[member] = held
        self.claims |= {Claim(generation, partition, member_id) for partition in held}

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._ended()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._ended()

    def _ended(self) -> None:
        self._listening.join()
        self._held.clear()

    def __enter__(self) -> Member:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
