"""The console that `up` starts ends with its `up`, however early that one ends."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cluster.lock import DirectoryLock

pytestmark = pytest.mark.slow


def console(directory: Path, on: socket.socket) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "highwater", "console", "--socket", str(on.fileno())]
    command += ["--bootstrap-server", "127.0.0.1:1", "--while-locked", str(directory / ".lock")]
    return subprocess.Popen(command, pass_fds=(on.fileno(),), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("has_begun", [True, False], ids=["its lock is free", "its directory is gone"])
def test_it_ends_at_once_if_its_up_was_killed_before_it_could_look(tmp_path: Path, has_begun: bool) -> None:
    if has_begun:
        DirectoryLock(tmp_path).release()
    with socket.create_server(("127.0.0.1", 0)) as on, console(tmp_path, on) as process:
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_it_serves_until_the_lock_is_released(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as on, console(tmp_path, on) as process:
        try:
            with socket.create_connection(on.getsockname(), 60) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert client.recv(5) == b"HTTP/"
            assert process.poll() is None
            lock.release()
            assert process.wait(60) == 0
        finally:
            process.kill()
