"""The lock of a directory keeps out every other node: of this process, of another, and Apache Kafka."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.world import AlreadyLocked
from highwater.world.real_disk import RealDisk

# What java.nio.channels.FileChannel.tryLock does.
AS_THE_JVM_LOCKS = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit("taken")
print("locked", flush=True)
sys.stdin.read()
"""


def start_other(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", AS_THE_JVM_LOCKS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_second_node_of_the_same_process_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    release = RealDisk().lock(tmp_path / ".lock")
    for _ in range(2):
        with pytest.raises(AlreadyLocked):
            RealDisk().lock(tmp_path / ".lock")
    release()
    RealDisk().lock(tmp_path / ".lock")()


def test_a_refused_attempt_does_not_undo_the_lock_against_other_processes(tmp_path: Path) -> None:
    release = RealDisk().lock(tmp_path / ".lock")
    with pytest.raises(AlreadyLocked):
        RealDisk().lock(tmp_path / ".lock")
    said = start_other(tmp_path / ".lock").communicate(timeout=120)
    assert said == ("", "taken\n")
    release()


def test_a_directory_that_another_process_has_locked_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    with start_other(tmp_path / ".lock") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(AlreadyLocked, match="another node is using this directory"):
            RealDisk().lock(tmp_path / ".lock")
        other.communicate(timeout=120)
    RealDisk().lock(tmp_path / ".lock")()
