"""A node on a failing disk: errors from below the process, and what clients then see."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.client import Client, delete_records
from highwater.errors import Code
from highwater.model import TopicPartition
from tests.apache import free_ports
from tests.cluster.nodes import Node, wait_until
from tests.cluster.tracing import failing, needs_strace
from tests.cluster.wire import create, fetch, produce

FILE = "00000000000000000000.log"
WRITE = "pwritev,pwritev2"
"""One call or the other, as the C library likes."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Shared: every case breaks a log of its own."""
    started = Node.fresh(tmp_path_factory.mktemp("faults")).start()
    yield started
    started.kill()


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    with Client(node.bootstrap) as client:
        yield client


def segment(node: Node, tp: TopicPartition) -> Path:
    return node.log_dir / str(tp) / FILE


@needs_strace
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_failed_append_is_trimmed_back_and_the_next_gets_its_offset(
    node: Node, client: Client, tmp_path: Path, error: str
) -> None:
    tp = TopicPartition(f"append-{error}", 0)
    create(client, tp.topic)
    assert produce(client, tp, [b"a", b"b"]) == (Code.NONE, 0)
    size = segment(node, tp).stat().st_size
    with failing(node.pid, tmp_path / "trace", segment(node, tp), f"{WRITE}:error={error}"):
        assert produce(client, tp, [b"lost"]) == (Code.KAFKA_STORAGE_ERROR, -1)
        assert segment(node, tp).stat().st_size == size
        assert fetch(client, tp) == (Code.NONE, [b"a", b"b"])
    assert produce(client, tp, [b"c"]) == (Code.NONE, 2)
    assert fetch(client, tp) == (Code.NONE, [b"a", b"b", b"c"])


@needs_strace
def test_a_short_write_that_then_fails_leaves_no_torn_batch(node: Node, client: Client, tmp_path: Path) -> None:
    tp = TopicPartition("short", 0)
    create(client, tp.topic)
    assert produce(client, tp, [b"a"]) == (Code.NONE, 0)
    size = segment(node, tp).stat().st_size
    with failing(node.pid, tmp_path / "trace", segment(node, tp), f"{WRITE}:retval=7", "pwrite64:error=ENOSPC"):
        assert produce(client, tp, [b"lost"]) == (Code.KAFKA_STORAGE_ERROR, -1)
    assert segment(node, tp).stat().st_size == size
    assert produce(client, tp, [b"b"]) == (Code.NONE, 1)
    assert fetch(client, tp) == (Code.NONE, [b"a", b"b"])


@needs_strace
def test_a_failed_trim_takes_the_log_offline_and_no_other(node: Node, client: Client, tmp_path: Path) -> None:
    tp, other = TopicPartition("trim", 0), TopicPartition("beside-trim", 0)
    for each in (tp, other):
        create(client, each.topic)
        assert produce(client, each, [b"a"]) == (Code.NONE, 0)
    with failing(node.pid, tmp_path / "trace", segment(node, tp), f"{WRITE}:error=EIO", "ftruncate:error=EIO"):
        assert produce(client, tp, [b"lost"]) == (Code.KAFKA_STORAGE_ERROR, -1)
    assert produce(client, tp, [b"refused"]) == (Code.KAFKA_STORAGE_ERROR, -1)
    assert fetch(client, tp) == (Code.KAFKA_STORAGE_ERROR, [])
    assert produce(client, other, [b"b"]) == (Code.NONE, 1)


@needs_strace
def test_a_failed_sync_is_final_though_the_next_would_succeed(node: Node, client: Client, tmp_path: Path) -> None:
    tp = TopicPartition("sync", 0)
    create(client, tp.topic, flush_messages="1")
    assert produce(client, tp, [b"a"]) == (Code.NONE, 0)
    with failing(node.pid, tmp_path / "trace", segment(node, tp), "fdatasync:error=EIO:when=1"):
        assert produce(client, tp, [b"not acknowledged"]) == (Code.KAFKA_STORAGE_ERROR, -1)
        assert produce(client, tp, [b"refused"]) == (Code.KAFKA_STORAGE_ERROR, -1)
    assert produce(client, tp, [b"refused"]) == (Code.KAFKA_STORAGE_ERROR, -1)
    assert fetch(client, tp) == (Code.KAFKA_STORAGE_ERROR, [])


@needs_strace
def test_after_a_failed_disk_no_clean_stop_is_claimed_and_the_log_opens_again(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path).start()
    tp = TopicPartition("sick", 0)
    try:
        with Client(node.bootstrap) as client:
            create(client, tp.topic)
            assert produce(client, tp, [b"a"]) == (Code.NONE, 0)
            with failing(node.pid, tmp_path / "trace", segment(node, tp), f"{WRITE}:error=EIO", "ftruncate:error=EIO"):
                assert produce(client, tp, [b"lost"]) == (Code.KAFKA_STORAGE_ERROR, -1)
        assert node.stop() == 0
        assert not (node.log_dir / ".kafka_cleanshutdown").exists()
        node.start()
        with Client(node.bootstrap) as client:
            # If the loss was reported to the controller, it elects the replica once its return is reported, too.
            wait_until(lambda: fetch(client, tp, max_wait_ms=0) == (Code.NONE, [b"a"]))
            assert produce(client, tp, [b"b"]) == (Code.NONE, 1)
            assert fetch(client, tp) == (Code.NONE, [b"a", b"b"])
        assert node.stop() == 0
        assert (node.log_dir / ".kafka_cleanshutdown").exists()
    finally:
        node.kill()


def test_records_deleted_before_a_kill_do_not_come_back(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path).start()
    tp = TopicPartition("deleted", 0)
    try:
        with Client(node.bootstrap) as client:
            create(client, tp.topic)
            assert produce(client, tp, [b"%d" % number for number in range(10)]) == (Code.NONE, 0)
            assert produce(client, tp, [b"10", b"11"]) == (Code.NONE, 10)
            assert delete_records(client, {tp: 7}) == {tp: 7}
        node.restart()
        with Client(node.bootstrap) as client:
            assert fetch(client, tp, 6)[0] is Code.OFFSET_OUT_OF_RANGE
            assert fetch(client, tp, 7) == (Code.NONE, [b"7", b"8", b"9", b"10", b"11"])
            assert delete_records(client, {tp: -1}) == {tp: 12}
        node.restart()
        with Client(node.bootstrap) as client:
            assert fetch(client, tp, 11)[0] is Code.OFFSET_OUT_OF_RANGE
            assert produce(client, tp, [b"12"]) == (Code.NONE, 12)
            assert fetch(client, tp, 12) == (Code.NONE, [b"12"])
    finally:
        node.kill()


class SmallDisk(Node):
    """A node whose log directory is a file system of a few megabytes, in a mount namespace of its own."""

    def start(self) -> Node:
        at, formatted = self.log_dir, self.log_dir.with_name("formatted")
        shutil.copytree(at, formatted)
        prepare = f"mount -t tmpfs -o size=8m tmpfs '{at}' && cp -a '{formatted}/.' '{at}'"
        node = f"exec '{sys.executable}' -m highwater node --config '{self.config}'"
        with self._output_file.open("ab") as output:
            self._process = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", f"{prepare} && {node}"], stdout=subprocess.PIPE, stderr=output
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith(b"ready "):
            self.kill()
            pytest.skip(f"no file system can be mounted here: {self.output[-3000:]}")
        return self

    def inside(self, command: str) -> None:
        subprocess.run(["nsenter", "-t", str(self.pid), "-m", "sh", "-c", command], check=True, timeout=60)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_full_disk_is_readable_and_writable_again_once_there_is_room(tmp_path: Path) -> None:
    node = SmallDisk.fresh(tmp_path)
    assert isinstance(node, SmallDisk)
    node.start()
    tp = TopicPartition("full", 0)
    try:
        with Client(node.bootstrap) as client:
            create(client, tp.topic)
            stored: list[bytes] = []
            value = bytes(100_000)
            while (answer := produce(client, tp, [value]))[0] is Code.NONE:
                assert answer[1] == len(stored)
                stored.append(value)
                assert len(stored) < 200
            assert answer == (Code.KAFKA_STORAGE_ERROR, -1)
            assert produce(client, tp, [value]) == (Code.KAFKA_STORAGE_ERROR, -1)
            assert fetch(client, tp) == (Code.NONE, stored)
            assert fetch(client, tp, len(stored) - 1) == (Code.NONE, stored[-1:])
            node.inside(f"mount -o remount,size=16m '{node.log_dir}'")
            assert produce(client, tp, [b"again"]) == (Code.NONE, len(stored))
            assert fetch(client, tp, len(stored) - 1) == (Code.NONE, [value, b"again"])
        assert node.stop() == 0
    finally:
        node.kill()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_status_and_the_console_producer_report_a_full_disk_and_the_producer_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    (http,) = free_ports(1)
    node = SmallDisk.fresh(tmp_path, {"highwater.http.listener": f"127.0.0.1:{http}"})
    assert isinstance(node, SmallDisk)
    node.start()
    command = [sys.executable, "-m", "highwater"]
    line = [*command, "console-producer", "--bootstrap-server", node.bootstrap, "--topic", "full"]
    errors = tmp_path / "errors"
    try:
        with Client(node.bootstrap) as client:
            create(client, "full")
            while produce(client, TopicPartition("full", 0), [bytes(100_000)])[0] is Code.NONE:
                pass
        node.inside(f"cat /dev/zero 2>/dev/null >'{node.log_dir}/filler' || true")
        inside = ["nsenter", "-t", str(node.pid), "-m"]
        quick = tmp_path / "quick.properties"
        quick.write_text("default.api.timeout.ms=6000\n")
        tool = [*inside, *command, "topics", "--bootstrap-server", node.bootstrap, "--command-config", str(quick)]
        # More partitions than the last page of the metadata log has room for.
        done = subprocess.run(
            [*tool, "--create", "--topic", "more", "--partitions", "500"], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert "the controller cannot write to its metadata log" in done.stdout + done.stderr
        assert "No space left on device" in done.stdout + done.stderr
        node.inside(f"rm '{node.log_dir}/filler'")
        done = subprocess.run([*command, "status", "--http", f"127.0.0.1:{http}"], capture_output=True, text=True)
        assert re.search(r"full-0 .* cannot be written .* No space left on device", done.stdout)
        with errors.open("wb") as error, subprocess.Popen(line, stdin=subprocess.PIPE, stderr=error) as producer:
            assert producer.stdin is not None
            producer.stdin.write(b"x" * 200_000 + b"\n")
            producer.stdin.close()
            wait_until(lambda: "Still trying to send to topic full: " in errors.read_text(), 60)
            node.inside(f"mount -o remount,size=16m '{node.log_dir}'")
            assert producer.wait(60) == 0
        assert "No space left on device" in errors.read_text()
        done = subprocess.run([*command, "status", "--http", f"127.0.0.1:{http}"], capture_output=True, text=True)
        assert done.returncode == 0 and "cannot be written" not in done.stdout
    finally:
        node.kill()
