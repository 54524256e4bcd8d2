"""The process of one node, held by a handle of the system: a signal reaches exactly this process, or none."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from highwater.cluster.directory import PID
from highwater.cluster.holder import has_open
from highwater.cluster.layout import NodeLayout
from highwater.cluster.ports import HOST
from highwater.log.names import LOCK

IN_ORDER = "exit code 0"
WARNINGS = ("] WARNING ", "] ERROR ", "] CRITICAL ")
"""In front of the messages that a user should see, as the logs of nodes have them."""


class Handle:
    """A handle of a running process. A pid can be given to another process; a handle cannot."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError if there is no such process."""
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    @property
    def is_alive(self) -> bool:
        """False for a process that has ended, even if its parent has not waited for it yet."""
        return not select.select([self._fd], [], [], 0)[0]

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, number)

    def wait(self, seconds: float | None) -> bool:
        """Whether it has ended by then."""
        return bool(select.select([self._fd], [], [], seconds)[0])

    @property
    def ending(self) -> str | None:
        """How it ended; None while it runs, and for a process that is not our child."""
        try:
            found = os.waitid(os.P_PIDFD, self._fd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return f"exit code {found.si_status}"
        return f"killed by {signal.Signals(found.si_status).name}"

    def close(self) -> None:
        """Waits for its end if it is our child, and closes the handle."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self._fd, os.WEXITED | os.WNOHANG)
        os.close(self._fd)


class NodeProcess:
    """One node of the cluster, as in `nodes.json`."""

    def __init__(self, member: NodeLayout, cluster_lock: Path) -> None:
        self._member = member
        self._cluster_lock = cluster_lock
        self._handle: Handle | None = None
        self.id = member.id
        self.pid = 0
        """The pid of its last start, running or not."""
        self.config = member.config_file
        self.pid_file = member.home / PID
        self.output = member.home / "node.log"

    @property
    def argv(self) -> list[str]:
        """The command that starts this node again after a kill. The node writes its pid where `up` finds it, and ends
        with `up`."""
        node = [sys.executable, "-m", "highwater", "node", "--config", str(self.config)]
        node += ["--no-environment", "--pid-file", str(self.pid_file), "--log-file", str(self.output)]
        return [*node, "--while-locked", str(self._cluster_lock)]

    def describe(self) -> dict[str, object]:
        member = self._member
        return {
            "id": self.id,
            "roles": list(member.roles),
            "pid": self.pid,
            "host": HOST,
            "port": member.endpoints[0].port,
            "http": member.http,
            "log_dir": str(member.log_dir),
            "config": str(self.config),
            "argv": self.argv,
        }

    @property
    def is_alive(self) -> bool:
        return self._handle is not None and self._handle.is_alive

    def hold(self, pid: int) -> None:
        """For a child that was just started, and that cannot have been waited for yet."""
        self._take(Handle(pid))

    def launch(self, steered: int) -> None:
        """Starts a new process, which inherits nothing but the socket that steers its links."""
        argv = [*self.argv, "--steered-by", str(steered)]
        self.hold(subprocess.Popen(argv, start_new_session=True, pass_fds=[steered]).pid)

    def look(self) -> bool:
        """Whether the node was started again by hand: the process in the pid file counts if it holds the node's
        lock."""
        pid = self._named_pid()
        if pid in (0, self.pid) or self.is_alive:
            return False
        with contextlib.suppress(ProcessLookupError, ValueError):
            handle = Handle(pid)
            if has_open(pid, self._member.log_dir / LOCK) and handle.is_alive:
                self._take(handle)
                return True
            handle.close()
        return False

    @property
    def fate(self) -> str:
        """The fate of a node that no longer runs: a SIGTERM stops it in order."""
        return "stopped" if self._handle is not None and self._handle.ending == IN_ORDER else "died"

    def last_words(self, count: int) -> str:
        """How it ended, the path of its log, and the last lines of the log."""
        ending = None if self._handle is None else self._handle.ending
        how = "" if ending is None else f" ({ending})"
        try:
            lines = self.output.read_text(errors="replace").splitlines()[-count:]
        except OSError as failed:
            lines = [f"({failed.strerror})"]
        return f"{how}; its log, {self.output}, ends:\n" + "\n".join(f"  {line}" for line in lines)

    def last_warning(self) -> str | None:
        """The last warning or error in its log."""
        try:
            lines = self.output.read_text(errors="replace").splitlines()
        except OSError:
            return None
        found = [after for line in lines for mark in WARNINGS if (after := line.partition(mark)[2])]
        return found[-1].rpartition(" (")[0] or found[-1] if found else None

    def signal(self, number: signal.Signals) -> None:
        if self._handle is not None:
            self._handle.signal(number)

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended by then."""
        return self._handle is None or self._handle.wait(seconds)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _take(self, handle: Handle) -> None:
        self.close()
        self._handle = handle
        self.pid = handle.pid

    def _named_pid(self) -> int:
        """0 if there is none, or if the node's disk cannot be read, which is a trouble of the node only."""
        try:
            return int(self.pid_file.read_text())
        except (OSError, ValueError):
            return 0
