"""A leader that stands still past its fencing, and goes on with clients attached, does no harm."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from highwater.audit import verdict_text
from tests.cluster.feed import Feed, feeding, verdict_on
from tests.cluster.stage import Stage, staged, wait_until

pytestmark = pytest.mark.slow

SOON = {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "500"}
ATTACHED = 20


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("paused") / "cluster", brokers=3, settings=SOON) as stage:
        yield stage


def ends(stage: Stage, topic: str) -> set[tuple[int, int]]:
    """(high watermark, log end) of every replica that runs."""
    rows = (row for status in stage.statuses() for row in status["partitions"] if row["topic"] == topic)
    return {(row["high_watermark"], row["log_end"]) for row in rows}


def log_files(stage: Stage, node: int, topic: str) -> dict[str, bytes]:
    directory = stage.log_dir(node) / f"{topic}-0"
    return {file.name: file.read_bytes() for file in sorted(directory.glob("*.log"))}


def send_to_whoever_is_there(stage: Stage, topic: str, node: int) -> Producer:
    """A client with acks=1 that has come to know its leader: what it sends next waits at that leader's door."""
    producer = Producer(
        {"bootstrap.servers": stage.address(node), "acks": 1, "linger.ms": 0, "batch.num.messages": 1, "log_level": 0}
    )
    producer.produce(topic, value=b"before", partition=0)
    assert producer.flush(120) == 0
    return producer


@pytest.mark.parametrize("is_controller", [False, True], ids=["a broker", "the active controller"])
def test_a_leader_that_slept_past_its_fencing_acknowledges_nothing_that_is_lost(
    stage: Stage, is_controller: bool
) -> None:
    controller = stage.active_controller()
    sleeper = controller if is_controller else next(node for node in stage.brokers if node != controller)
    topic = f"slept-{sleeper}"
    stage.create_topic_on(
        topic, [sleeper, *(node for node in stage.brokers if node != sleeper)], {"min.insync.replicas": "2"}
    )
    impatient = send_to_whoever_is_there(stage, topic, sleeper)
    feeds = [Feed(stage.bootstrap, topic, 1, f"attached-{number}") for number in range(2)]
    with feeding(*feeds):
        stage.pause(sleeper)
        for number in range(ATTACHED):
            impatient.produce(topic, value=b"tail %d" % number, partition=0)
        impatient.poll(0.1)
        wait_until(lambda: sleeper not in stage.unfenced(), "the sleeper is fenced")
        wait_until(lambda: stage.leader(topic) not in (None, sleeper), "another leads")
        late = Feed(stage.running, topic, 1, "late")
        with feeding(late):
            stage.resume(sleeper)
            wait_until(lambda: stage.isr(topic) == set(stage.brokers), "the sleeper is in sync again")
    assert impatient.flush(60) == 0
    wait_until(
        lambda: len(ends(stage, topic)) == 1 and all(high == end for high, end in ends(stage, topic)), "all same"
    )

    verdict = verdict_on(stage.bootstrap, topic, 1, [*feeds, late])
    verdict.foreign = [each for each in verdict.foreign if each[2] != b"before" and not each[2].startswith(b"tail ")]
    assert verdict.ok and verdict.acked == sum(len(feed.sends) for feed in (*feeds, late)), verdict_text(verdict)
    cuts = re.findall(rf"{topic}-0 cut from \d+ to \d+, (\d+) records", stage.output(sleeper))
    assert sum(map(int, cuts)) >= 1, "what it took in after its fencing is its alone"
    copies = [log_files(stage, node, topic) for node in stage.brokers]
    assert copies[0] == copies[1] == copies[2] and any(copies[0].values())
