"""Each way in which records can be lost has its own report, and failOnDataLoss does what it says; gaps are no loss."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from highwater.client import Admin, Client, NewTopic, delete_records
from highwater.cluster import Cluster
from highwater.model import TopicPartition
from highwater.pipeline.landing.direct import RAW, Taken, records
from highwater.pipeline.landing.position import Log, Lost
from highwater.pipeline.lookup import Found, Lookup
from highwater.pipeline.loss import DataLoss, Kind
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Reading
from highwater.pipeline.work_orders import to_batch
from tests.apache import ApacheKafka
from tests.pipeline.readers import batch_rows, streaming, values

pytestmark = pytest.mark.slow
Produce = Callable[..., None]
FAIL = pytest.mark.parametrize("fail", [True, False], ids=["fails", "goes on"])


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.apache)])
def servers(request: pytest.FixtureRequest) -> str:
    """Both kinds of server in turn."""
    if request.param == "apache":
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        return kafka.bootstrap
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.bootstrap_servers


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "loss-" + "".join(each if each.isalnum() else "-" for each in request.node.name).strip("-")


def create(servers: str, topic: str, **configs: object) -> None:
    settings = {name.replace("_", "."): str(value) for name, value in configs.items()}
    with Client(servers) as client:
        Admin(client).create_topics([NewTopic(topic, 1, -1, (), settings)])
    for client in at_each(servers):
        client.retrying(partial(client.leader, TopicPartition(topic, 0)), await_topic=True)


def delete(servers: str, topic: str) -> None:
    with Client(servers) as client:
        Admin(client).delete_topics([topic])
    deadline = time.monotonic() + 120
    for client in at_each(servers):
        client.refresh([topic])
        while topic in client.view.topics:
            assert time.monotonic() < deadline, f"{topic} is still there"
            client.refresh([topic])


def at_each(servers: str) -> Iterator[Client]:
    """One server may hear of a topic later than the others, and a reader may ask any of them."""
    for server in servers.split(","):
        with Client(server) as client:
            yield client


def numbers(first: int, last: int) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(0, None, b"%d" % number) for number in range(first, last)]


def numbered(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


@FAIL
def test_a_topic_that_was_created_again_is_not_read_as_the_old_one(
    servers: str, topic: str, fail: bool, produce: Produce, caplog: pytest.LogCaptureFixture
) -> None:
    create(servers, topic)
    produce(servers, topic, numbers(0, 20))
    with streaming(servers, subscribe=topic, startingOffsets="earliest", failOnDataLoss=fail) as query:
        assert values(query.run()) == numbered(range(20))
        delete(servers, topic)
        create(servers, topic)
        produce(servers, topic, numbers(100, 130))
        if fail:
            with pytest.raises(DataLoss, match=f"RECREATED.*{topic}-0.*offsets 20") as loss:
                query.run()
            assert loss.value.kind is Kind.RECREATED
        else:
            assert values(query.run()) == numbered(range(100, 130)), (
                "all of the new topic, although 20 were read before"
            )
            assert "RECREATED" in caplog.text


@FAIL
def test_a_query_reports_a_topic_that_was_deleted(servers: str, topic: str, fail: bool, produce: Produce) -> None:
    create(servers, topic)
    create(servers, f"{topic}-stays")
    produce(servers, topic, numbers(0, 20))
    pattern = f"^{topic}"
    with streaming(servers, subscribePattern=pattern, startingOffsets="earliest", failOnDataLoss=fail) as query:
        assert len(query.run()) == 20
        delete(servers, topic)
        produce(servers, f"{topic}-stays", numbers(0, 5))
        if fail:
            with pytest.raises(DataLoss, match=f"DELETED.*{topic}-0"):
                query.run()
        else:
            assert values(query.run()) == numbered(range(5))


@FAIL
def test_a_reader_that_retention_overtakes_learns_what_it_missed(
    servers: str, topic: str, fail: bool, produce: Produce, caplog: pytest.LogCaptureFixture
) -> None:
    create(servers, topic)
    produce(servers, topic, numbers(0, 20))
    with streaming(servers, subscribe=topic, startingOffsets="earliest", failOnDataLoss=fail) as query:
        assert query.batch() == [], "the first batch settles the start"
        with Client(servers) as client:
            assert delete_records(client, {TopicPartition(topic, 0): 12}) == {TopicPartition(topic, 0): 12}
        if fail:
            with pytest.raises(DataLoss, match=f"EXPIRED.*{topic}-0, offsets 0 to 12.*begins at 12"):
                query.run()
        else:
            assert values(query.run()) == numbered(range(12, 20))
            assert "EXPIRED" in caplog.text


class Brokers(NamedTuple):
    """A cluster of this module's own, which may be broken; it cleans its logs all the time."""

    servers: str
    kill: Callable[[int], None]
    start: Callable[[int], None]

    def wait_for(self, topic: str, leader: int | None, isr: set[int]) -> None:
        """With None, for any leader."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        deadline = time.monotonic() + 120
        found: tuple[int, set[int]] = (-1, set())
        while found[1] != isr or leader not in (None, found[0]):
            assert time.monotonic() < deadline, f"{topic}-0 has leader and ISR {found}, not {leader, isr}"
            # A broker that just came answers before it knows of any topic.
            if topic in (topics := admin.list_topics(topic, timeout=60).topics) and topics[topic].partitions:
                found = topics[topic].partitions[0].leader, set(topics[topic].partitions[0].isrs)


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.apache)])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    settings = {"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "0"}
    if request.param == "ours":
        with Cluster(brokers=2, controllers=1, config=settings) as cluster:
            yield Brokers(cluster.bootstrap_servers, cluster.kill, cluster.start)
        return
    request.getfixturevalue("apache")
    # Three nodes: the quorum outlives the two brokers of a topic. A dead one is missed after nine seconds by default;
    # one that only pauses must not be, or the topic would be led by another one than is waited for.
    quick = {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "500"}
    kafka = ApacheKafka(tmp_path_factory.mktemp("apache-brokers"), nodes=3, properties=settings | quick)
    try:
        kafka.start()
        yield Brokers(kafka.bootstrap, kafka.kill_node, kafka.start_node)
    finally:
        kafka.kill()


def test_a_log_cut_by_an_unclean_election_is_read_again_from_the_cut(
    brokers: Brokers, produce: Produce, caplog: pytest.LogCaptureFixture
) -> None:
    topic, servers = "loss-by-unclean-election", brokers.servers
    with Client(servers) as client:
        settings = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        Admin(client).create_topics([NewTopic(topic, assignment=[[1, 2]], configs=settings)])
    brokers.wait_for(topic, leader=1, isr={1, 2})
    produce(servers, topic, numbers(0, 10))
    brokers.kill(2)
    brokers.wait_for(topic, leader=1, isr={1})
    produce(servers, topic, numbers(10, 20))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    with (
        streaming(servers, **options, failOnDataLoss=True) as strict,
        streaming(servers, **options, failOnDataLoss=False) as lenient,
    ):
        assert values(strict.run()) == values(lenient.run()) == numbered(range(20))
        brokers.kill(1)
        brokers.start(2)
        brokers.wait_for(topic, leader=2, isr={2})
        # The log ends where the readers were: only the epochs show that it is another one.
        produce(servers, topic, numbers(100, 110))
        with pytest.raises(DataLoss, match=f"TRUNCATED.*{topic}-0, offsets 10 to 20") as loss:
            strict.run()
        assert loss.value.kind is Kind.TRUNCATED
        assert values(lenient.run()) == numbered(range(100, 110)), "each new record once, and none of the old again"
        produce(servers, topic, numbers(110, 115))
        assert values(lenient.run()) == numbered(range(110, 115))
        assert "TRUNCATED" in caplog.text
    brokers.start(1)
    brokers.wait_for(topic, leader=None, isr={1, 2})


def test_a_task_of_direct_mode_says_which_records_were_gone_when_it_came(
    servers: str, topic: str, produce: Produce
) -> None:
    create(servers, topic)
    produce(servers, topic, numbers(0, 20))
    with Client(servers) as client:
        delete_records(client, {TopicPartition(topic, 0): 12})
    order = to_batch([OffsetRange(topic, "", 0, 0, 20)], Reading(servers, fail_on_data_loss=False))
    taken = Taken()
    rows = [row for batch in records([order], RAW, taken) for row in batch["value"].to_pylist()]
    assert rows == numbered(range(12, 20))
    assert taken.lost == [(Log(topic, "", 0), Lost(0, 12, Kind.EXPIRED.value))]


def test_a_partition_that_one_look_up_misses_is_not_read_again_from_its_beginning(
    cluster: Cluster, produce: Produce, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, servers = "loss-of-a-look-up", cluster.bootstrap_servers
    cluster.create_topic(topic, partitions=2)
    missed: set[TopicPartition] = set()

    class Behind(Lookup):
        """Asks a broker that has not heard of all partitions yet."""

        def partitions(self, expected: Collection[TopicPartition] = ()) -> Found:
            found = super().partitions(expected)
            there = tuple(each for each in found.partitions if each not in missed)
            return Found({topic: found.topic_ids[topic] for topic, _ in there}, there)

    monkeypatch.setattr("highwater.pipeline.stream.Lookup", Behind)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    produce(servers, topic, [(index, None, b"old") for index in (0, 1) for _ in range(20)])
    with streaming(servers, subscribe=topic, startingOffsets="earliest", failOnDataLoss=False) as query:
        assert len(query.run()) == 40
        for missing in (both[1:], both):
            missed.update(missing)
            produce(servers, topic, [(0, None, b"new"), (1, None, b"new")])
            seen = query.run()
            assert {row["partition"] for row in seen} <= {0}, "what is there is read on"
            query.restart()
            missed.clear()
            seen += query.available_now() if missing is both else query.run()
            assert values(seen) == [b"new"] * 2, "what is back is read on from where it was"


def test_the_gaps_of_compaction_are_no_loss(
    brokers: Brokers, produce: Produce, caplog: pytest.LogCaptureFixture
) -> None:
    topic, servers = "loss-by-compaction", brokers.servers
    create(servers, topic, cleanup_policy="compact", segment_ms=1, min_cleanable_dirty_ratio=0.0)
    began = time.time_ns() // 1_000_000 - 1_000
    for number in range(30):
        # Further apart than segment.ms, so that each record has a segment and all but the last can be cleaned.
        produce(servers, topic, [(0, b"key-%d" % (number % 3), b"%d" % number)], timestamp=began + 10 * number)
    left = numbered(range(26, 30))
    deadline = time.monotonic() + 120
    while values(batch_rows(servers, subscribe=topic)) != left:
        assert time.monotonic() < deadline, "the log is not compacted"
    with caplog.at_level(logging.WARNING):
        for fail in (True, False):
            with streaming(servers, subscribe=topic, startingOffsets="earliest", failOnDataLoss=fail) as query:
                assert values(query.run()) == left
            assert values(batch_rows(servers, subscribe=topic, failOnDataLoss=fail)) == left
            # A range that ends inside a gap.
            ends = f'{{"{topic}":{{"0":15}}}}'
            assert batch_rows(servers, subscribe=topic, endingOffsets=ends, failOnDataLoss=fail) == []
    # Brokers run in this process too, and may have something to say of a busy machine.
    assert not [record for record in caplog.records if record.name.startswith("highwater.pipeline")]


@pytest.fixture(scope="module")
def transactions(apache_kafka: ApacheKafka) -> Iterator[tuple[str, str]]:
    """A topic of Apache Kafka with committed, aborted and pending records, each transaction with its marker."""
    topic, servers = "loss-transactions", apache_kafka.bootstrap
    create(servers, topic)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "loss", "linger.ms": 0, "log_level": 0})
    producer.init_transactions(60)
    for number, end in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        for record in range(3):
            producer.produce(topic, value=b"%d-%d" % (number, record), partition=0)
        producer.flush(120)
        end(120)
    producer.begin_transaction()
    producer.produce(topic, value=b"pending", partition=0)
    producer.flush(120)
    yield servers, topic
    producer.abort_transaction(120)


def test_markers_and_aborted_records_are_gaps_to_a_reader_of_committed_records(transactions: tuple[str, str]) -> None:
    servers, topic = transactions
    committed = [b"%d-%d" % (number, record) for number in (0, 2) for record in range(3)]
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka_isolation_level": "read_committed"}
    assert values(batch_rows(servers, **options)) == committed
    with streaming(servers, **options, maxOffsetsPerTrigger=2) as query:
        assert values(query.run()) == committed
    everything = values(batch_rows(servers, subscribe=topic))
    assert len(everything) == 10 and everything[-1] == b"pending"
