"""A node in its own process, controlled over a socket that only it inherits."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import highwater
from highwater.cluster.host import Decide, Host, NodeState
from highwater.cluster.layout import NodeLayout
from highwater.model import Endpoint, NodeId

_SOURCES = Path(highwater.__file__).parents[1]


class ProcessHost(Host):
    """`kill` is SIGKILL, `pause` is SIGSTOP."""

    def __init__(self, member: NodeLayout, peers: Mapping[Endpoint, NodeId], decide: Decide) -> None:
        super().__init__(member, peers, decide)
        self._process: subprocess.Popen[bytes] | None = None
        self._steering: socket.socket | None = None
        self._listener: threading.Thread | None = None
        self._sending = threading.Lock()
        self._calls: dict[int, Future[Any]] = {}
        self._made = 0
        self._ready = False
        self._settled = threading.Event()
        self._expected = False

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    @property
    def output(self) -> Path:
        return self.member.home / "node.log"

    def begin(self, commands: Sequence[tuple[str, Any]]) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, (str(_SOURCES), os.environ.get("PYTHONPATH"))))
        with theirs, self.output.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "highwater.cluster.child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        self._steering = ours
        self.state = NodeState.UP
        peers = [[at.host, at.port, node] for at, node in self.peers.items()]
        self._send({"properties": self.member.properties, "peers": peers, "commands": list(commands)})
        self._listener = threading.Thread(
            target=self._listen, args=(ours,), name=f"highwater-node-{self.member.id}", daemon=True
        )
        self._listener.start()

    def wait_ready(self, seconds: float) -> bool:
        self._settled.wait(seconds)
        return self._ready and self.failure is None

    def stop(self, seconds: float) -> bool:
        self._expected = True
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._join()
        return True

    def kill(self) -> None:
        self._expected = True
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._join()

    def pause(self) -> None:
        """Waits until the system has stopped the process: the signal takes effect only some time after it was sent."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
        self.state = NodeState.PAUSED

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self.state = NodeState.UP

    def call(self, verb: str, argument: Any, seconds: float) -> Any:
        return self._order(verb, argument).result(seconds)

    def send(self, verb: str, argument: Any) -> None:
        with contextlib.suppress(ConnectionError):
            self._order(verb, argument)

    def _order(self, verb: str, argument: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._sending:
            self._made += 1
            number = self._made
            self._calls[number] = answer
        self._send({"id": number, "verb": verb, "argument": argument})
        return answer

    def _send(self, line: dict[str, Any]) -> None:
        with self._sending:
            if self._steering is None:
                raise ConnectionError(f"node {self.member.id} does not run")
            self._steering.sendall(json.dumps(line).encode() + b"\n")

    def _join(self) -> None:
        if self._listener is not None and self._listener is not threading.current_thread():
            self._listener.join()
        self.state = NodeState.DOWN

    # --- the listening thread

    def _listen(self, steering: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), steering.makefile("rb") as lines:
            for text in lines:
                if text.endswith(b"\n"):  # else it was killed within a line
                    self._hear(json.loads(text))
        with self._sending, steering:
            self._steering = None  # before it is closed: a sender then learns that the node has ended
        self._end()

    def _hear(self, line: dict[str, Any]) -> None:
        if "ask" in line:
            chosen = self.decide(self.member.id, line["rules"])
            self._send({"settle": line["ask"], "rule": chosen})
        elif "ready" in line:
            self._ready = True
            self._settled.set()
        elif "opens logs" in line:
            self.opens_logs = True
        elif "failed" in line:
            self.failure = line["failed"]
        else:
            call = self._calls.pop(line["re"])
            if "error" in line:
                call.set_exception(ValueError(line["error"]))
            else:
                call.set_result(line["value"])

    def _last_words(self) -> str:
        lines = self.output.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _end(self) -> None:
        assert self._process is not None
        code = self._process.wait()
        if not self._expected:
            self.failure = self.failure or f"its process ended with code {code}: {self._last_words()}"
        with self._sending:
            calls, self._calls = self._calls, {}
        for call in calls.values():
            call.set_exception(ConnectionError(f"node {self.member.id} has ended"))
        self.state = NodeState.DOWN
        self._settled.set()
