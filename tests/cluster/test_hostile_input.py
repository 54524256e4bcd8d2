"""What a client may send that it should not, row by row, to a running node; and the same beside Apache Kafka.

The rows are the classes of input that Kafka has an answer to. Where ours is another one, docs/divergence.md says so.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

import pytest

from highwater.model import Uuid
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from highwater.wire.messages.produce_request import ProduceRequest
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.records import build
from tests.apache import ApacheKafka
from tests.cluster.hostile_inputs import (
    CLOSED,
    Input,
    Outcome,
    Reply,
    Target,
    addressing,
    bodies,
    create,
    every_input,
    fetch,
    framing,
    lies,
    outcome,
    produce,
    produced,
)
from tests.cluster.nodes import Node
from tests.cluster.peer import Peer, asked, converse, decoded, request
from tests.hostile_batches import good_batch, with_header

IDLE_SECONDS = 1.5
NOW = time_ns() // 1_000_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Whatever it met, it logged no exception that it had not expected."""
    made = Node.fresh(tmp_path_factory.mktemp("hostile"), {"message.max.bytes": "100000"})
    try:
        yield made.start()
        assert "Traceback" not in made.output, made.output[made.output.find("Traceback") - 200 :][:3000]
    finally:
        made.kill()


@pytest.fixture(scope="module")
def target(node: Node) -> Target:
    return Target("hostile", create(node.port, "hostile"))


@pytest.fixture(scope="module")
def compacted(node: Node) -> Target:
    return Target("compacted", create(node.port, "compacted", {"cleanup.policy": "compact"}))


# Frames, headers, versions and bodies

NOT_ANSWERED = [
    *framing(),
    *(each for each in addressing() if not each.replies),
    *(each for each in lies() if each.name != "Produce v8: records of negative length"),  # which are none
]


@pytest.mark.parametrize("given", NOT_ANSWERED, ids=[each.name for each in NOT_ANSWERED])
def test_is_closed_without_an_answer(node: Node, given: Input) -> None:
    assert outcome(node.port, given) == CLOSED


def test_an_unknown_version_of_api_versions_gets_the_known_ones_and_a_bad_name_an_error(node: Node) -> None:
    answered = {given.name: outcome(node.port, given) for given in addressing() if given.replies}
    assert answered
    for name, got in answered.items():
        assert got == (((35,),) if "version" in name else ((42,),)), name


def test_a_short_body_is_closed_and_bytes_behind_a_body_are_ignored(node: Node, target: Target) -> None:
    for given in bodies(target):
        got = outcome(node.port, given)
        tolerated = any(words in given.name for words in ("behind", "an unknown tag", "out of order"))
        assert (got != CLOSED) == tolerated, given.name


# Time


@pytest.mark.slow
def test_a_slow_sender_is_closed_once_it_is_idle(tmp_path: Path) -> None:
    """By a node of its own: a connection delayed for so long on the way to another node would be closed, too."""
    node = Node.fresh(tmp_path, {"connections.max.idle.ms": str(int(IDLE_SECONDS * 1000))}).start()
    whole = asked(ApiVersionsRequest(), 0)
    try:
        began = monotonic()
        with Peer(node.port) as silent, Peer(node.port) as stalled:
            stalled.send(whole[:-1])
            assert silent.answer() is None
            assert stalled.answer() is None
        assert monotonic() - began > IDLE_SECONDS * 0.9
    finally:
        node.kill()


# Produce


def batch(**options: Any) -> bytes:
    return bytes(build([(NOW, b"k", b"v", ())] * 2, **options))


BATCHES: list[tuple[str, Callable[[], tuple[bytes | None, ...]], Outcome]] = [
    ("no records", lambda: (None,), ((87,),)),
    ("an empty field", lambda: (b"",), ((87,),)),
    ("two batches", lambda: (batch() * 2,), ((87,),)),
    ("magic 1", lambda: (with_header(batch(), magic=1, seal=False),), ((87,),)),
    ("magic 3", lambda: (with_header(batch(), magic=3, seal=False),), ((2,),)),
    ("a wrong checksum", lambda: (with_header(batch(), crc=1, seal=False),), ((2,),)),
    ("a length below the header", lambda: (with_header(batch(), length=40, seal=False),), ((2,),)),
    ("a length below all formats", lambda: (with_header(batch(), length=3, seal=False),), ((2,),)),
    ("a count too many", lambda: (with_header(batch(), record_count=3),), ((87,),)),
    ("a count and a delta too many", lambda: (with_header(batch(), record_count=3, last_offset_delta=2),), ((87,),)),
    ("a delta too many", lambda: (with_header(batch(), last_offset_delta=2),), ((87,),)),
    ("a base offset", lambda: (with_header(batch(), base_offset=7),), ((87,),)),
    ("a control batch", lambda: (with_header(batch(), attributes=0x20),), ((87,),)),
    ("a transactional batch", lambda: (with_header(batch(), attributes=0x10),), ((48,),)),
    ("a producer without a sequence", lambda: (batch(producer_id=9, producer_epoch=0),), ((87,),)),
    ("a time to come", lambda: (bytes(build([(2**60, b"k", b"v", ())])),), ((32,),)),
    ("a batch beyond max.message.bytes", lambda: (bytes(build([(NOW, b"k", bytes(100_000), ())])),), ((10,),)),
    ("garbage instead of gzip", lambda: (with_header(batch(), attributes=1),), ((87,),)),
    ("garbage beside a good batch", lambda: (with_header(batch(), attributes=4), batch()), ((87, 0),)),
]  # fmt: skip


@pytest.mark.parametrize(("records", "code"), [row[1:] for row in BATCHES], ids=[row[0] for row in BATCHES])
def test_a_bad_batch_is_refused_with_kafkas_code(
    node: Node, target: Target, records: Callable[[], tuple[bytes | None, ...]], code: Outcome
) -> None:
    for version in (3, 8, 9, 13):
        assert outcome(node.port, produced("row", target, *records(), version=version)) == code


def test_acks_other_than_all_none_and_one_are_refused(node: Node, target: Target) -> None:
    for acks in (-2, 2, 32767):
        assert outcome(node.port, produced("acks", target, batch(), acks=acks)) == ((21,),)


def test_without_acks_an_error_closes_the_connection_and_success_is_silent(node: Node, target: Target) -> None:
    assert outcome(node.port, produced("good", target, batch(), acks=0)) == ()
    assert outcome(node.port, produced("bad", target, batch() * 2, acks=0)) == CLOSED


def test_zstd_needs_produce_7(node: Node, target: Target) -> None:
    packed = bytes(good_batch(codec=4))
    assert outcome(node.port, produced("zstd", target, packed, version=6)) == ((76,),)
    assert outcome(node.port, produced("zstd", target, packed, version=7)) == ((0,),)


def test_a_compacted_topic_needs_keys(node: Node, compacted: Target) -> None:
    keyless = bytes(build([(NOW, None, b"v", ())]))
    assert outcome(node.port, produced("keyless", compacted, keyless)) == ((87,),)


def test_sequences_that_leap_or_go_back_an_epoch_are_refused(node: Node, target: Target) -> None:
    def sent(number: int, epoch: int, sequence: int) -> bytes:
        records = batch(producer_id=4711, producer_epoch=epoch, base_sequence=sequence)
        return asked(produce(target, records), 9, number)

    frames = [sent(1, 1, 0), sent(2, 1, 7), sent(3, 0, 2), sent(4, 1, 0), sent(5, 2, 1), sent(6, 1, 2)]
    answers = converse(node.port, frames)
    codes = [
        decoded(payload, ProduceResponse, 9, number).responses[0].partition_responses[0].error_code
        for number, payload in enumerate(answers, start=1)
    ]
    assert codes == [0, 45, 47, 0, 45, 0], "a leap, an old epoch, the same again, a new epoch that does not begin at 0"


def test_a_transactional_id_gets_an_error_that_is_not_retried(node: Node) -> None:
    with Peer(node.port) as peer:
        asked_for = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
        assert peer.ask(asked_for, 4, InitProducerIdResponse).error_code == 53
        assert peer.ask(InitProducerIdRequest(transactional_id=""), 4, InitProducerIdResponse).error_code == 42
        assert peer.ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse).error_code == 0


# Fetch


def test_fetch_sessions_that_do_not_exist_or_do_not_fit(node: Node, target: Target) -> None:
    def code(session: int, epoch: int, version: int = 12) -> tuple[int, int]:
        wanted = fetch(target, version)
        wanted.session_id, wanted.session_epoch = session, epoch
        answer = peer.ask(wanted, version, FetchResponse)
        return answer.error_code, answer.session_id

    with Peer(node.port) as peer:
        assert code(12345, 1) == (70, 0)
        none, session = code(0, 0)
        assert none == 0
        assert session > 0
        assert code(session, 5) == (71, 0)
        assert code(session, 1, version=13) == (106, 0)
        assert code(session, 1) == (0, session)
        assert code(session, -1) == (0, 0)
        assert code(session, 2) == (70, 0)


@pytest.mark.parametrize(("code", "epoch", "offset"), [(75, 99, 0), (1, -1, 10**9), (1, -1, -5), (0, 0, 0), (0, -1, 0)])
def test_a_fetch_of_another_epoch_or_beyond_the_ends(
    node: Node, target: Target, code: int, epoch: int, offset: int
) -> None:
    wanted = fetch(target, 12, offset, epoch)
    given = Input("fetch", asked(wanted, 12), (Reply(FetchResponse, 12),))
    assert outcome(node.port, given) == ((0, code),)


def test_a_fetch_of_an_epoch_that_is_over_is_fenced(node: Node) -> None:
    fenced = Target("fenced", create(node.port, "fenced"))
    node.restart()
    given = Input("fetch", asked(fetch(fenced, 12, epoch=0), 12), (Reply(FetchResponse, 12),))
    assert outcome(node.port, given) == ((0, 74),)


# Names


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 250])
def test_a_bad_topic_name_is_refused_and_never_made(node: Node, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with Peer(node.port) as peer:
        created = peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7, CreateTopicsResponse)
        assert [each.error_code for each in created.topics] == [17]
        listed = peer.ask(MetadataRequest(topics=None), 12, MetadataResponse)
        assert name not in [each.name for each in listed.topics]


def test_the_same_topic_twice_is_an_invalid_request(node: Node) -> None:
    topics = [CreatableTopic(name="twice", num_partitions=1, replication_factor=1) for _ in range(2)]
    with Peer(node.port) as peer:
        created = peer.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7, CreateTopicsResponse)
    assert [each.error_code for each in created.topics] == [42]


def test_metadata_before_version_12_knows_topics_by_name_alone(node: Node) -> None:
    for version in (10, 11):
        for topic in (MetadataRequestTopic(name=None), MetadataRequestTopic(name="a", topic_id=Uuid(b"i" * 16))):
            with Peer(node.port) as peer:
                listed = peer.ask(MetadataRequest(topics=[topic]), version, MetadataResponse)
            assert [(each.error_code, each.name) for each in listed.topics] == [(42, topic.name or "")]


def test_a_tag_that_came_twice_does_not_stop_a_request_that_is_passed_on(node: Node) -> None:
    setting = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resource = AlterConfigsResource(resource_type=2, resource_name="no-such-topic", configs=[setting])
    body = IncrementalAlterConfigsRequest(resources=[resource]).encode(1)
    with Peer(node.port) as peer:
        peer.send(request(44, 1, 1, body[:-1] + b"\x02\x63\x00\x63\x00", True))
        payload = peer.answer()
    assert payload is not None
    assert decoded(payload, IncrementalAlterConfigsResponse, 1, 1).responses[0].error_code == 3


# Order


def test_ten_thousand_pipelined_requests_with_any_ids_are_answered_in_order(node: Node, target: Target) -> None:
    metadata, ids = asked(MetadataRequest(topics=[]), 9)[12:], [number % 7 - 3 for number in range(10_000)]
    frames = [struct.pack(">ihhi", 8 + len(metadata), 3, 9, number) + metadata for number in ids]
    answers = converse(node.port, frames)
    assert [struct.unpack_from(">i", payload)[0] for payload in answers] == ids


def test_a_half_closed_peer_gets_the_answers_it_waits_for(node: Node, target: Target) -> None:
    waiting = fetch(target, 12, offset=0, partition=2)
    waiting.max_wait_ms, waiting.min_bytes = 300, 1
    answers = converse(node.port, [asked(waiting, 12, 1), asked(ApiVersionsRequest(), 0, 2)])
    assert decoded(answers[0], FetchResponse, 12, 1).error_code == 0
    assert decoded(answers[1], ApiVersionsResponse, 0, 2).error_code == 0


# Beside Apache Kafka

LENIENT = "Kafka reads on where a string is not UTF-8 or a client id has a negative length; here the connection closes"
NAMELESS = "Kafka says UNKNOWN_SERVER_ERROR where records cannot be read; here it is INVALID_RECORD"
NO_TRANSACTIONS = "Kafka asks for a transactional id; here there are no transactions"


def difference(name: str, kafka: Outcome, ours: Outcome) -> str:
    """What docs/divergence.md says of it, or the outcomes."""
    if (kafka, ours) == ((), CLOSED) and ("UTF-8" in name or "negative" in name):
        return LENIENT
    if (kafka, ours) == (((-1,),), ((87,),)) and name.startswith("produce"):
        return NAMELESS
    if kafka == ((53,),) and ours in (((48,),), ((-1,),)):
        return NO_TRANSACTIONS
    return f"{name}: Kafka {kafka}, ours {ours}"


def test_hostile_inputs_end_as_they_do_at_apache_kafka(node: Node, target: Target, apache_kafka: ApacheKafka) -> None:
    port = apache_kafka.ports[0]
    theirs = Target("hostile-inputs", create(port, "hostile-inputs"))
    pairs = list(zip(every_input(theirs), every_input(target), strict=True))
    assert len(pairs) >= 500
    outcomes = [(given.name, outcome(port, given), outcome(node.port, mine)) for given, mine in pairs]
    found = {difference(name, kafka, ours) for name, kafka, ours in outcomes if kafka != ours}
    assert found == {LENIENT, NAMELESS, NO_TRANSACTIONS}
    assert sum(ours == CLOSED for _, _, ours in outcomes) > 100
    assert len({ours for _, _, ours in outcomes}) > 15, "as many kinds of answers"


def test_a_produce_of_a_version_that_has_a_name_only_is_refused(node: Node) -> None:
    """Produce 0 to 2 are advertised for old librdkafka, and have no schema (KAFKA-18659)."""
    assert ProduceRequest.VERSIONS[0] == 3
    for version in range(3):
        assert outcome(node.port, Input("old", request(0, version, 1, bytes(40), False))) == CLOSED
