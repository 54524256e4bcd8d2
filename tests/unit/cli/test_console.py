"""The console tools say what is not there, and end with what was typed before Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from highwater.cli import main
from highwater.cluster import Cluster

pytestmark = pytest.mark.slow

CREATED = "it is created, if the cluster lets clients do that (auto.create.topics.enable)"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("one")
        cluster.create_topic("three", partitions=3)
        yield cluster


def consume(cluster: Cluster, *options: str) -> Result:
    common = ("console-consumer", "--bootstrap-server", cluster.bootstrap_servers, "--timeout-ms", "300")
    return CliRunner().invoke(main, [*common, *options])


def producing(cluster: Cluster, topic: str, *options: str) -> list[str]:
    command = [sys.executable, "-m", "highwater", "console-producer", "--topic", topic]
    return [*command, "--bootstrap-server", cluster.bootstrap_servers, *options]


@pytest.mark.parametrize(("topic", "group"), [("misspelt", ()), ("misspelt-too", ("--group", "readers"))])
def test_the_consumer_reports_a_missing_topic(cluster: Cluster, topic: str, group: tuple[str, ...]) -> None:
    done = consume(cluster, "--topic", topic, *group)
    assert f"Topic {topic} does not exist (UNKNOWN_TOPIC_OR_PARTITION): {CREATED}\n" in done.stderr
    assert done.stderr.endswith("Processed a total of 0 messages\n")


def test_a_topic_whose_name_is_nearly_that_is_named(cluster: Cluster) -> None:
    asked = "There is a topic three: was that one meant?"
    assert asked in own_words(consume(cluster, "--topic", "theree").stderr)
    assert not any("was that one meant" in line for line in own_words(consume(cluster, "--topic", "other").stderr))


@pytest.mark.parametrize(("topic", "partitions"), [("one", "1 partition: 0"), ("three", "3 partitions: 0-2")])
def test_a_missing_partition_is_reported_with_those_that_are_there(
    cluster: Cluster, topic: str, partitions: str
) -> None:
    done = consume(cluster, "--topic", topic, "--partition", "9", "--offset", "0")
    assert f"Topic {topic} has {partitions} (UNKNOWN_TOPIC_OR_PARTITION): partition 9 is waited for\n" in done.stderr


def test_the_consumer_prints_no_warning_for_a_topic_that_exists(cluster: Cluster) -> None:
    for options in (("--topic", "three"), ("--topic", "three", "--partition", "2"), ("--include", "thr.*")):
        done = consume(cluster, *options)
        assert (done.exit_code, own_words(done.stderr)) == (0, ["Processed a total of 0 messages"])
    done = consume(cluster, "--include", "nobody.*")
    assert "No topic matches --include so far: those that come are read\n" in done.stderr


def test_the_producer_reports_a_missing_topic(cluster: Cluster) -> None:
    done = subprocess.run(producing(cluster, "mistyped"), input="a line\n", capture_output=True, text=True)
    assert own_words(done.stderr) == [f"Topic mistyped does not exist (UNKNOWN_TOPIC_OR_PARTITION): {CREATED}"]
    assert done.returncode == 0
    assert [record.value for record in cluster.records("mistyped")] == [b"a line"]


def test_lines_typed_before_ctrl_c_are_sent_without_a_message(cluster: Cluster) -> None:
    ours, theirs = os.pipe()
    reached = ["env", "--default-signal=INT"]  # a shell may have it ignored in the background
    command = [*reached, *producing(cluster, "one", "--timeout", "600000")]  # so that nothing is sent before
    try:
        with subprocess.Popen(command, stdin=ours, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            os.write(theirs, b"first\nsecond\n")
            cluster.wait_until(lambda: _unread(ours) == 0, what="the lines are read")
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (process.returncode, own_words(printed.decode())) == (130, [])
    assert [record.value for record in cluster.records("one")] == [b"first", b"second"]


def own_words(errors: str) -> list[str]:
    """Without those on what takes long: a busy machine may."""
    return [line for line in errors.splitlines() if not line.startswith("Still ")]


def _unread(descriptor: int) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0)))
    return int(count)
