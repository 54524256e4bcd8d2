"""Orders to `highwater up` by their effect: kill, pause, resume, cut, slow, heal and down, over its control socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.cli import control_socket, main
from highwater.client import Admin, Client, NewTopic
from highwater.client.producer import Producer
from highwater.model import TopicPartition
from tests.apache import free_ports
from tests.cluster.stage import WAIT_SECONDS, Stage, staged, wait_until

LAG_SECONDS = 1.0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("control") / "data"
    with staged(directory, 3, settings={"replica.lag.time.max.ms": str(int(LAG_SECONDS * 1000))}) as up:
        with Client(up.bootstrap) as client:
            Admin(client).create_topics([NewTopic("lanes", assignment=[[1, 2, 3]])])
        wait_until(lambda: is_whole(up), "the topic has its replicas in sync")
        yield up


def is_whole(stage: Stage) -> bool:
    led = stage.led("lanes").get(0)
    return led is not None and led.is_whole


def isr(stage: Stage) -> set[int]:
    led = stage.led("lanes").get(0)
    return set() if led is None else set(led.isr)


def order(stage: Stage | Path, *words: str) -> str:
    code, output = try_order(stage, *words)
    assert code == 0, output
    return output


def try_order(stage: Stage | Path, *words: str) -> tuple[int, str]:
    directory = stage if isinstance(stage, Path) else stage.directory
    done = CliRunner().invoke(main, [*words, "--data-dir", str(directory)])
    return done.exit_code, done.output.strip()


def state(stage: Stage, node: int) -> str:
    pid = {each["id"]: each["pid"] for each in nodes(stage)}[node]
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def nodes(stage: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((stage.directory / "nodes.json").read_text())["nodes"]
    return found


def send(stage: Stage, count: int) -> None:
    with Client(stage.bootstrap) as client:
        producer = Producer(client, acks=1, idempotent=False)
        for number in range(count):
            producer.send(TopicPartition("lanes", 0), [(int(time.time() * 1000), b"key", b"%d" % number, ())])


def page(stage: Stage, node: int, query: str) -> dict[str, Any]:
    at = next(each["http"] for each in nodes(stage) if each["id"] == node)
    with urllib.request.urlopen(f"http://{at}/status?{query}", timeout=WAIT_SECONDS) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def leader_and_follower(stage: Stage) -> tuple[int, int]:
    """The follower is not the active controller: a leader that is cut off from that one would be fenced."""
    leader = stage.led("lanes")[0].leader
    controller = page(stage, leader, "summary")["quorum"]["leader"]
    return leader, min({1, 2, 3} - {leader, controller})


def test_a_cut_follower_leaves_the_isr_and_comes_back_when_healed(stage: Stage) -> None:
    leader, follower = leader_and_follower(stage)
    said = order(stage, "cut", str(leader), str(follower))
    try:
        assert said == f"the link from node {leader} to node {follower} is cut, and back"
        send(stage, 1)
        wait_until(lambda: isr(stage) == {1, 2, 3} - {follower}, "the cut follower has left the ISR")
    finally:
        assert order(stage, "heal") == "all links are healed"
    wait_until(lambda: is_whole(stage), "it is back")


def test_bytes_of_a_slow_link_take_longer(stage: Stage) -> None:
    leader, follower = leader_and_follower(stage)
    assert "take 150 ms longer" in order(stage, "slow", str(leader), str(follower), "--ms", "150")
    try:
        with Client(stage.bootstrap) as client:
            producer = Producer(client, acks=-1, idempotent=False)
            begun = time.monotonic()
            producer.send(TopicPartition("lanes", 0), [(int(time.time() * 1000), b"key", b"value", ())])
            assert time.monotonic() - begun >= 0.15
    finally:
        order(stage, "heal")
    wait_until(lambda: is_whole(stage), "it is in sync")


def test_a_paused_node_stands_still_until_it_is_resumed(stage: Stage) -> None:
    assert order(stage, "pause", "2") == "node 2 is paused"
    assert state(stage, 2) == "T"
    code, output = try_order(stage, "pause", "2")
    assert code == 1 and "node 2 is paused already: `highwater resume 2`" in output
    code, output = try_order(stage, "status")
    told = next(line for line in output.splitlines() if line.startswith("Node 2 is paused: "))
    assert code == 0 and f"`highwater resume 2 --data-dir {stage.directory}`" in told
    assert order(stage, "resume", "2") == "node 2 goes on"
    assert state(stage, 2) != "T"
    code, output = try_order(stage, "resume", "2")
    assert code == 1 and "node 2 is not paused" in output
    wait_until(lambda: is_whole(stage), "it is in sync")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("kill", "7"), "there is no node 7: the nodes are 1, 2, 3"),
        (("cut", "1", "1"), "node 1 has no link to itself"),
        (("cut", "1", "9"), "there is no node 9"),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_refused_in_one_line(
    stage: Stage, words: tuple[str, ...], why: str
) -> None:
    code, output = try_order(stage, *words)
    assert code == 1 and why in output and len(output.splitlines()) == 1


def test_one_partition_is_described_with_its_epochs_and_the_last_fetches_of_its_followers(stage: Stage) -> None:
    leader = stage.led("lanes")[0].leader
    page(stage, leader, "topic=lanes&partition=0")
    send(stage, 3)
    end = stage.led("lanes")[0].log_end

    def has_fetched_all() -> bool:
        rows = page(stage, leader, "topic=lanes&partition=0")["follower_fetches"]
        return {row["follower"] for row in rows if row["high_watermark"] == end} == {1, 2, 3} - {leader}

    wait_until(has_fetched_all, "both followers have the high watermark")
    described = page(stage, leader, "topic=lanes&partition=0")
    assert described["epochs"][0]["start"] == 0 and described["epochs"][-1]["epoch"] == described["leader_epoch"]
    rows = described["follower_fetches"]
    assert all(row["offset"] >= row["high_watermark"] or row["bytes"] for row in rows)
    assert [row["seconds_ago"] for row in rows] == sorted((row["seconds_ago"] for row in rows), reverse=True)


def test_the_summary_has_numbers_and_no_rows(stage: Stage) -> None:
    shown = page(stage, 1, "summary")
    assert shown["summary"]["partitions"] >= 1 and shown["summary"]["under_replicated"] == 0
    assert "partitions" not in shown and shown["quorum"]["voters"] == [1, 2, 3]


def test_the_partitions_of_one_topic_come_with_the_summary(stage: Stage) -> None:
    told = page(stage, 1, "topic=lanes")
    assert {row["topic"] for row in told["partitions"]} == {"lanes"} and told["summary"]["partitions"] >= 1
    assert page(stage, 1, "topic=none")["partitions"] == []


@pytest.mark.parametrize(("query", "code"), [("partition=0", 400), ("topic=lanes&partition=x", 400),
                                             ("topic=none&partition=0", 404)])  # fmt: skip
def test_a_question_for_a_partition_that_is_not_there_is_refused(stage: Stage, query: str, code: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        page(stage, 1, query)
    assert refused.value.code == code
    refused.value.close()


def test_the_address_of_the_status_page_can_be_read_as_a_setting(stage: Stage) -> None:
    done = CliRunner().invoke(
        main, ["configs", "--bootstrap-server", stage.address(1), "--entity-type", "brokers", "--entity-name", "1",
               "--describe", "--all"],
    )  # fmt: skip
    assert f"highwater.http.listener={stage.nodes[1]['http']}" in done.output


def test_the_socket_is_for_its_own_user_only(stage: Stage) -> None:
    path = stage.directory / control_socket.NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_ISSOCK(path.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_reach_the_socket_even_where_its_mode_would_allow_it(stage: Stage) -> None:
    path = stage.directory / control_socket.NAME
    for each in (path.parent, *path.parent.parents[:3]):
        each.chmod(0o755)
    attempt = f"""
import os, socket
os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as s:
    s.connect({str(path)!r}); s.sendall(b'{{"verb": "kill", "nodes": [1]}}\\n'); print(s.recv(100))
"""

    def tried() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", attempt], capture_output=True, text=True, timeout=WAIT_SECONDS)

    assert "PermissionError" in tried().stderr
    path.chmod(0o666)
    try:
        done = tried()
        assert "dead" not in done.stdout and (done.stdout.strip() == "b''" or "Error" in done.stderr)
    finally:
        path.chmod(0o600)
    assert state(stage, 1) != "Z" and order(stage, "heal")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff{[",
        b'{"verb": "kill", "nodes": [[1]]}',
        b'{"verb": "cut", "nodes": [1.0, 2], "one_way": false}',
        b'{"verb": "slow", "nodes": [1, 2], "ms": NaN}',
    ],
)
def test_garbage_and_silence_on_the_socket_stop_nobody_elses_order(stage: Stage, garbage: bytes) -> None:
    path = str(stage.directory / control_socket.NAME)
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as garbled:
        silent.connect(path)
        garbled.connect(path)
        garbled.sendall(garbage + b"\n")
        assert b"refused" in garbled.recv(1000)
        assert order(stage, "heal") == "all links are healed"


def test_a_node_that_was_killed_starts_again_as_one_whose_links_can_be_cut(stage: Stage) -> None:
    assert order(stage, "kill", "2") == "node 2 is dead"
    wait_until(lambda: isr(stage) == {1, 3}, "it left the ISR")
    assert f"Node 2 is dead: `highwater start 2 --data-dir {stage.directory}`" in try_order(stage, "status")[1]
    assert order(stage, "start", "2") == "node 2 starts again"
    wait_until(lambda: is_whole(stage), "it is back")
    code, output = try_order(stage, "start", "2")
    assert code == 1 and "node 2 runs already" in output
    assert order(stage, "slow", "1", "2", "--ms", "1") and order(stage, "heal")


def test_a_killed_node_is_dead_and_says_so_the_second_time(stage: Stage) -> None:
    assert order(stage, "kill", "3") == "node 3 is dead"
    code, output = try_order(stage, "kill", "3")
    assert code == 1 and "node 3 is dead already" in output
    wait_until(lambda: isr(stage) == {1, 2}, "it left the ISR")
    stage.down.add(3)
    stage.start(3)
    wait_until(lambda: is_whole(stage), "it is back")
    wait_until(lambda: nodes(stage)[2]["pid"] != stage.nodes[3]["pid"], "`up` knows its process")
    code, output = try_order(stage, "cut", "1", "3")
    assert code == 1 and "node 3 was started by hand" in output


def test_down_stops_every_node_in_order_and_waits_and_then_nothing_runs(tmp_path: Path) -> None:
    directory = tmp_path / ("a-name-that-is-too-long-for-the-address-of-a-socket-" * 3)
    http = free_ports(3)[0]
    command = [sys.executable, "-m", "highwater", "up", "--data-dir", str(directory), "--port", "0"]
    up = subprocess.Popen(
        [*command, "--http-port", str(http)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert up.stdout is not None and up.stderr is not None
        assert up.stdout.readline().startswith("ready ")
        listed = json.loads((directory / "nodes.json").read_text())["nodes"]
        assert [each["http"] for each in listed] == [f"127.0.0.1:{http + at}" for at in range(3)]
        order(directory, "pause", "2")
        order(directory, "cut", "1", "3")
        assert order(directory, "down") == "stopped"
        assert not any(Path(f"/proc/{each['pid']}").exists() for each in listed)
        assert up.wait(WAIT_SECONDS) == 0
        clean = [directory / f"node-{node}" / "data" / ".kafka_cleanshutdown" for node in (1, 2, 3)]
        assert all(path.exists() for path in clean)
        code, output = try_order(directory, "down")
        assert code == 1 and f"no `highwater up` runs on {directory}" in output
    finally:
        if up.poll() is None:
            up.send_signal(signal.SIGTERM)
            up.wait(WAIT_SECONDS)
        for pipe in (up.stdout, up.stderr):
            if pipe is not None:
                pipe.close()


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, output = try_order(tmp_path / "none", "kill", "1")
    assert code == 1 and "there is no directory" in output


def test_a_socket_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = control_socket.ControlSocket(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(struct, "unpack", lambda layout, data: (1, 54321, 1))
    with pytest.raises(control_socket.Refused, match="not trusted"):
        control_socket.order(tmp_path, verb="heal")
    served.close("stopped")
