"""What `min.insync.replicas` and unclean elections promise, with the controllers apart: the quorum outlives brokers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from highwater.audit import History, Outcome, Read, Sent, Verdict, judge, verdict_text
from highwater.cluster.reading import stored_records
from highwater.model import TopicPartition as Place
from tests.cluster.feed import Feed, feeding, next_ack, verdict_on
from tests.cluster.stage import Stage, staged, wait_until

pytestmark = pytest.mark.slow

SOON = {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "500"}
"""Where two of three vanish, the controller first suspects itself: only the session's end counts."""
UNCLEAN_SECONDS = 2
"""Where nobody says else, it is longer than a test would wait: five minutes."""
TOO_FEW = KafkaError.NOT_ENOUGH_REPLICAS


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("min-isr") / "cluster"
    with staged(directory, brokers=3, controllers=3, settings=SOON) as stage:
        yield stage


@pytest.fixture
def stage(running: Stage) -> Iterator[Stage]:
    """Whole again after each test."""
    yield running
    running.start(*sorted(running.down))
    wait_until(lambda: running.unfenced() == set(running.brokers), "all brokers are back")


def kill_and_fence(stage: Stage, *nodes: int) -> None:
    stage.kill(*nodes)
    wait_until(lambda: not stage.unfenced() & set(nodes), f"{nodes} are fenced")


def outcome_of_one_write(stage: Stage, topic: str, value: bytes) -> KafkaError | None:
    """With acks=all and no retry: the broker's own answer."""
    producer = Producer({"bootstrap.servers": stage.running, "acks": "all", "retries": 0, "log_level": 0})
    errors: list[KafkaError | None] = []
    producer.produce(topic, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(120) == 0
    return errors[0]


def values_read(stage: Stage, topic: str, until: int) -> list[bytes]:
    """By an ordinary consumer, from the beginning to an offset."""
    consumer = Consumer(
        {"bootstrap.servers": stage.running, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + 120
    while len(values) < until:
        assert time.monotonic() < deadline, f"{len(values)} of {until} records were read"
        for message in consumer.consume(500, 0.2):
            assert message.error() is None
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value)
    consumer.close()
    return values


def write(stage: Stage, topic: str, name: str, count: int) -> list[Sent]:
    """Each acknowledged by all that are in sync; their values begin with `name`."""
    producer = Producer({"bootstrap.servers": stage.running, "acks": "all", "enable.idempotence": True, "log_level": 0})
    sends: list[Sent] = []
    for number in range(count):
        value = f"{name} {number}".encode()
        producer.produce(
            topic,
            value=value,
            partition=0,
            on_delivery=lambda error, message, value=value: sends.append(
                Sent(Place(topic, 0), value, name, Outcome.UNKNOWN if error else Outcome.ACKED, message.offset())
            ),
        )
    assert producer.flush(120) == 0
    assert [sent.outcome for sent in sends] == [Outcome.ACKED] * count
    return sends


def judged(stage: Stage, topic: str, sends: list[Sent]) -> Verdict:
    stored = stored_records(stage.running, [Place(topic, 0)], 120)
    return judge(History(sends, [Read(Place(topic, 0), each.offset, each.value or b"") for each in stored]))


def test_writes_go_on_without_one_broker_and_are_refused_without_two(stage: Stage) -> None:
    stage.create_topic_on("two", [1, 2, 3], {"min.insync.replicas": "2"})
    feeds = [Feed(stage.bootstrap, "two", 1, f"p{number}") for number in range(2)]
    with feeding(*feeds):
        killed_at = stage.kill(1)
        wait_until(lambda: next_ack(feeds, Place("two", 0), killed_at), "writes go on without the first leader")
        leader = stage.leader("two")
        assert leader in (2, 3)
        kill_and_fence(stage, 5 - leader)
        wait_until(lambda: stage.isr("two") == {leader}, "one is in sync")
        refused = [outcome_of_one_write(stage, "two", b"refused %d" % number) for number in range(3)]
        assert [error and error.code() for error in refused] == [TOO_FEW] * 3
        committed = stage.led("two")[0].high_watermark
        read = values_read(stage, "two", committed)
        assert len(read) == committed and not [value for value in read if value.startswith(b"refused")]
        assert stage.led("two")[0].high_watermark == committed, "nothing is committed by too few"
        acked = sum(len(feed.acked[Place("two", 0)]) for feed in feeds)
        stage.start(1, 5 - leader)
        wait_until(lambda: stage.isr("two") == {1, 2, 3}, "all are in sync again")
        wait_until(lambda: sum(len(feed.acked[Place("two", 0)]) for feed in feeds) > acked + 50, "writes go on")
    verdict = verdict_on(stage.bootstrap, "two", 1, feeds)
    assert verdict.ok and verdict.acked == sum(len(feed.sends) for feed in feeds), verdict_text(verdict)


def test_with_a_minimum_of_one_all_but_one_may_die_and_nothing_acknowledged_is_lost(stage: Stage) -> None:
    stage.create_topic_on("one", [1, 2, 3], {"min.insync.replicas": "1"})
    feeds = [Feed(stage.bootstrap, "one", 1, f"p{number}") for number in range(2)]
    with feeding(*feeds):
        while len(stage.down) < 2:
            # A replica that has lost touch for a moment cannot take over: the partition would wait for the dead.
            wait_until(lambda: stage.isr("one") == set(stage.brokers) - stage.down, "every living replica is in sync")
            leader = stage.leader("one")
            assert leader is not None
            killed_at = stage.kill(leader)
            wait_until(partial(next_ack, feeds, Place("one", 0), killed_at), f"writes go on without {leader}")
    verdict = verdict_on(stage.running, "one", 1, feeds)
    assert verdict.ok and verdict.acked == sum(len(feed.sends) for feed in feeds), verdict_text(verdict)


def lose_all_that_have_everything(stage: Stage, topic: str) -> tuple[list[Sent], list[Sent]]:
    """What all three have, and what only broker 1 has, which is dead then; the others are back."""
    stage.create_topic_on(topic, [1, 2, 3], {"min.insync.replicas": "1"})
    everywhere = write(stage, topic, "kept", 20)
    kill_and_fence(stage, 2, 3)
    wait_until(lambda: stage.isr(topic) == {1}, "one is in sync")
    alone = write(stage, topic, "suffix", 7)
    stage.kill(1)
    stage.start(2, 3)
    wait_until(lambda: stage.unfenced() == {2, 3}, "the others are back")
    wait_until(lambda: stage.named_leaders(topic) == {-1}, "there is no leader")
    return everywhere, alone


def allow_unclean_elections(stage: Stage, topic: str) -> None:
    named = ("--bootstrap-server", stage.address(2), "--entity-type", "topics", "--entity-name", topic)
    stage.command("configs", *named, "--alter", "--add-config", "unclean.leader.election.enable=true")


def unclean_elections(stage: Stage, topic: str) -> list[str]:
    """As the controllers reported them."""
    lines = "".join(stage.output(node) for node in stage.voters)
    return re.findall(rf"{topic}-0 elected \d for epoch \d+, uncleanly: .*", lines)


def assert_the_loss_is_the_suffix(stage: Stage, topic: str, everywhere: list[Sent], alone: list[Sent]) -> None:
    verdict = judged(stage, topic, [*everywhere, *alone])
    assert verdict.lost == alone and verdict.delivered == len(everywhere), verdict_text(verdict)
    others = {name: count for name, count in verdict.counts.items() if name not in ("acked", "delivered", "lost")}
    assert not any(others.values()), verdict_text(verdict)
    [reported] = unclean_elections(stage, topic)
    assert "what only 1 had is lost" in reported
    # The replica that had more returns, gives it up, and says so.
    stage.start(1)
    wait_until(lambda: stage.isr(topic) == {1, 2, 3}, "the dead one is back")
    assert re.search(rf"{topic}-0 cut from 27 to 20, 7 records", stage.output(1))
    assert judged(stage, topic, [*everywhere, *alone]).lost == alone


def test_an_unclean_election_that_is_asked_for_happens_at_once(stage: Stage) -> None:
    everywhere, alone = lose_all_that_have_everything(stage, "asked")
    allow_unclean_elections(stage, "asked")
    assert stage.named_leaders("asked") == {-1}, "the interval is five minutes"
    wanted = ("--election-type", "unclean", "--topic", "asked", "--partition", "0")
    printed = stage.command("leader-election", "--bootstrap-server", stage.address(2), *wanted)
    assert "Successfully completed leader election (UNCLEAN) for partitions asked-0" in printed
    wait_until(lambda: stage.leader("asked") in (2, 3), "it has a leader")
    assert_the_loss_is_the_suffix(stage, "asked", everywhere, alone)


def test_a_partition_rather_waits_than_loses_records_until_it_may(tmp_path: Path) -> None:
    settings = {**SOON, "unclean.leader.election.interval.ms": str(UNCLEAN_SECONDS * 1000)}
    with staged(tmp_path / "cluster", brokers=3, controllers=1, settings=settings) as stage:
        everywhere, alone = lose_all_that_have_everything(stage, "waits")
        before = metadata_offset(stage)
        # The controller writes something twice a second.
        wait_until(lambda: metadata_offset(stage) > before + 2 * UNCLEAN_SECONDS + 1, "the interval is over")
        assert stage.named_leaders("waits") == {-1} and not unclean_elections(stage, "waits")
        allow_unclean_elections(stage, "waits")
        wait_until(lambda: stage.leader("waits") in (2, 3), "it has a leader")
        assert_the_loss_is_the_suffix(stage, "waits", everywhere, alone)


def metadata_offset(stage: Stage) -> int:
    return max((printed.get("metadata_offset", 0) for printed in stage.statuses()), default=0)
