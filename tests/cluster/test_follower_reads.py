"""Consumers that read from the follower in their rack, on real processes (KIP-392). Brokers count what they send."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from highwater.config import RACK_AWARE_SELECTOR
from tests.cluster.feed import Feed, feeding
from tests.cluster.stage import Stage, staged, wait_until
from tests.cluster.tools import apache as apache_tools
from tests.cluster.tools import call

LEADER, FAR, NEAR = 1, 2, 3
"""The leader, a follower in another rack than the consumer's, and the follower in the consumer's rack."""
SETTINGS = {"replica.selector.class": RACK_AWARE_SELECTOR, "replica.lag.time.max.ms": "2000"}
OTHERS = (LEADER, FAR)
"""One of them leads: while the consumer's follower is cut off, leadership may move."""
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(
        tmp_path_factory.mktemp("racks") / "cluster", brokers=3, settings=SETTINGS, options=("--racks", "a,b,c")
    ) as stage:
        yield stage


class NearReader(threading.Thread):
    """A consumer in rack c that reads one partition from its beginning on, with librdkafka's defaults otherwise."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "near",
                "client.rack": "c",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self._stopping = threading.Event()
        self.offsets: list[int] = []
        self.values: list[bytes] = []
        self.errors: list[str] = []

    def run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.offsets.append(message.offset() or 0)
                self.values.append(message.value() or b"")
            elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                self.errors.append(str(error))  # a lost connection is reported, too, though nothing needs to be done

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        self._consumer.close()


def bytes_out(stage: Stage, node: int, topic: str) -> float:
    return stage.metric(node, BYTES_OUT, topic)


def reads_on(stage: Stage, reader: NearReader, nodes: tuple[int, ...], topic: str) -> None:
    """Waits until one of these brokers has sent the consumer more, and the consumer has got more."""

    def sent() -> float:
        return sum(bytes_out(stage, node, topic) for node in nodes)

    before, got = sent(), len(reader.offsets)
    wait_until(lambda: sent() > before and len(reader.offsets) > got, f"one of {nodes} serves the consumer")


@pytest.mark.slow
def test_a_consumer_reads_from_the_follower_in_its_rack_and_misses_nothing_when_that_is_killed_cut_off_and_slow(
    stage: Stage,
) -> None:
    topic = "near"
    stage.create_topic_on(topic, [LEADER, FAR, NEAR], {"min.insync.replicas": "1"})
    where = ("--data-dir", str(stage.directory))
    feed = Feed(stage.bootstrap, topic, 1, "p")
    reader = NearReader(stage.bootstrap, topic)
    with feeding(feed):
        reader.start()
        reads_on(stage, reader, (NEAR,), topic)
        assert bytes_out(stage, LEADER, topic) == bytes_out(stage, FAR, topic) == 0, "the leader sends it nothing"
        stage.command("slow", str(NEAR), str(LEADER), "--ms", "300", *where)
        reads_on(stage, reader, (LEADER, FAR, NEAR), topic)
        stage.command("heal", *where)
        for other in OTHERS:
            stage.command("cut", str(NEAR), str(other), *where)
        wait_until(lambda: NEAR not in stage.isr(topic), "it lags and leaves the ISR")
        reads_on(stage, reader, OTHERS, topic)
        stage.command("heal", *where)
        wait_until(lambda: NEAR in stage.isr(topic), "it is in sync again")
        reads_on(stage, reader, (NEAR,), topic)
        stage.kill(NEAR)
        reads_on(stage, reader, OTHERS, topic)
        stage.start(NEAR)
        wait_until(lambda: NEAR in stage.isr(topic), "it is in sync again")
        reads_on(stage, reader, (NEAR,), topic)
    written = [sent.value for sent in sorted(feed.sends, key=lambda sent: sent.offset)]
    assert feed.errors == []
    wait_until(lambda: len(reader.offsets) >= len(written), "everything is read")
    reader.stop()
    assert reader.errors == []
    assert reader.offsets == list(range(len(written))), "each record once and in order"
    assert reader.values == written


def test_a_java_consumer_reads_from_the_follower_in_its_rack(stage: Stage, apache: None) -> None:
    topic, count = "near-java", 100
    stage.create_topic_on(topic, [LEADER, FAR, NEAR])
    where = ["--bootstrap-server", stage.bootstrap, "--topic", topic]
    lines = "".join(f"record {number}\n" for number in range(count))
    read = [*where, "--from-beginning", "--max-messages", str(count), "--command-property", "client.rack=c"]
    wrote, got = apache_tools([call("console-producer", *where, input=lines), call("console-consumer", *read)])
    assert (wrote.rc, got.rc) == (0, 0), got.stderr
    assert got.stdout == lines
    assert bytes_out(stage, NEAR, topic) > count
    assert bytes_out(stage, LEADER, topic) == bytes_out(stage, FAR, topic) == 0
