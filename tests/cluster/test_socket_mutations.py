"""Damaged requests through the sockets of a running node: an answer or the end of that connection, and no harm.

`tests/wire/test_mutations.py` puts ten times as many through the decoders alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from highwater.model import Uuid
from highwater.net.registry import Role
from highwater.wire.codec import Struct
from highwater.wire.messages.default_principal_data import DefaultPrincipalData
from highwater.wire.messages.envelope_request import EnvelopeRequest
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import MetadataResponse
from highwater.wire.produce import ProduceRequestFlat
from tests.cluster.hostile_inputs import create
from tests.cluster.nodes import Node
from tests.cluster.peer import Hung, Peer, converse, decoded, request
from tests.hostile_batches import hostile_batch
from tests.mutation import Sample, mutated, refused
from tests.subjects import Subject, advertised
from tests.wire.specimens import specimen

PER_VERSION = 151
PER_REFUSED_VERSION = 500
AT_ONCE = 12
TOPIC = "hostile"
PRODUCE, FETCH, DELETE_TOPICS, ENVELOPE = 0, 1, 20, 58
TAKES_THE_NODE_AWAY = (52, 53, 54, 64)
"""Votes and epochs of the quorum, and UnregisterBroker: a whole one rightly takes the only node out of its cluster."""
SUBJECTS = [each for each in advertised() if each.api.key not in TAKES_THE_NODE_AWAY]


class Fate(Enum):
    """What becomes of a frame."""

    ANSWER = "an answer"
    CLOSE = "the end of the connection"
    SILENCE = "no answer, or the end of the connection where it failed"


class Frame(NamedTuple):
    subject: Subject
    number: int
    body: bytes

    @property
    def bytes(self) -> bytes:
        subject = self.subject
        return request(subject.api.key, subject.version, self.number, self.body, subject.is_flexible)

    @property
    def fate(self) -> Fate:
        subject = self.subject
        if not subject.is_handled or refused(subject.decode, self.body, subject.version):
            return Fate.CLOSE
        value = subject.decode(memoryview(self.body), subject.version)
        return Fate.SILENCE if isinstance(value, ProduceRequestFlat) and value.acks == 0 else Fate.ANSWER

    def __str__(self) -> str:
        return f"{self.subject.name}, mutation {self.number}: {self.bytes.hex()}"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node.fresh(tmp_path_factory.mktemp("mutations"))
    try:
        yield made.start()
    finally:
        made.kill()


def frames_of(subject: Subject, topic_id: Uuid) -> list[Frame]:
    random = Random(f"sockets {subject.name}")
    version = max(subject.version, subject.api.versions[0])
    samples = []
    for _ in range(40 if subject.api.key == ENVELOPE else 16):
        message = specimen(subject.api.request, version, random)
        if isinstance(message, EnvelopeRequest):
            _enclose(message, random, topic_id)
        elif subject.api.key != DELETE_TOPICS:
            _furnish(message, random, topic_id)
        samples.append(Sample.of(message, version))
    others = [*samples, *subject.across_versions(random)]
    count = PER_VERSION if subject.is_handled else PER_REFUSED_VERSION
    bodies = [mutated(random, random.choice(samples), others) for _ in range(count)]
    return [Frame(subject, number, _impatient(subject, body)) for number, body in enumerate(bodies)]


def _furnish(value: object, random: Random, topic_id: Uuid) -> None:
    """Let chance meet a topic that is there, and records that are almost right."""
    if isinstance(value, list):
        for element in value:
            _furnish(element, random, topic_id)
    elif isinstance(value, Struct):
        known = random.random() < 0.7
        for name in value.__slots__:
            if name == "records":
                setattr(value, name, hostile_batch(random))
            elif not known:
                _furnish(getattr(value, name), random, topic_id)
            elif name in ("name", "topic", "topic_name"):
                setattr(value, name, TOPIC)
            elif name == "topic_id":
                setattr(value, name, topic_id)
            elif name in ("partition", "partition_index", "index"):
                setattr(value, name, random.randrange(4))
            else:
                _furnish(getattr(value, name), random, topic_id)


def _enclose(envelope: EnvelopeRequest, random: Random, topic_id: Uuid) -> None:
    """Put a request into it, damaged or whole, from a client of any kind."""
    inner = random.choice([each for each in SUBJECTS if each.role is Role.CONTROLLER])
    message = specimen(inner.api.request, inner.version, random)
    _furnish(message, random, topic_id)
    sample = Sample.of(message, inner.version)
    body = random.choice((sample.body, mutated(random, sample, [sample])))
    envelope.request_data = request(inner.api.key, inner.version, 5, body, inner.is_flexible)[4:]
    principal = b"\0\0" + DefaultPrincipalData(type="User", name="someone").encode(0)
    envelope.request_principal = random.choice((principal, principal, None, principal[:3], b"", b"\0\7" + principal))
    envelope.client_host_address = random.choice((b"\x7f\0\0\1", b"\x7f\0\0\1", bytes(16), b"", bytes(5)))


def _impatient(subject: Subject, body: bytes) -> bytes:
    """A fetch may rightly wait for weeks; these wait for 20 ms at most."""
    at = 4 if subject.version < 15 else 0
    if subject.api.key != FETCH or len(body) < at + 4:
        return body
    return body[:at] + bytes((0, 0, 0, body[at + 3] % 20)) + body[at + 4 :]


def check(node: Node, frames: list[Frame]) -> int:
    """Sends them all; what follows the end of a connection goes into the next one. Gives the number of connections."""
    port = node.port if frames[0].subject.role is Role.BROKER else node.port_of("CONTROLLER")
    left = deque(frames)
    connections = 0
    with Peer(node.port) as control:
        while left:
            sent = [left[at] for at in range(min(AT_ONCE, len(left)))]
            answers = deque(_answers(port, sent))
            connections += 1
            for frame in sent:
                left.popleft()
                if not _goes_on(frame, answers):
                    break
            assert not answers, f"an answer too many after {frame}"
            metadata = control.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            assert 1 in [broker.node_id for broker in metadata.brokers]
    return connections


def _answers(port: int, sent: list[Frame]) -> list[bytes]:
    try:
        return converse(port, [frame.bytes for frame in sent])
    except Hung as hung:
        raise AssertionError(f"{hung}, after one of\n" + "\n".join(map(str, sent))) from hung


def _goes_on(frame: Frame, answers: deque[bytes]) -> bool:
    """Whether the connection outlived the frame; fails where its fate was another one than it should."""
    fate = frame.fate
    mine = bool(answers) and int.from_bytes(answers[0][:4], "big", signed=True) == frame.number
    if fate is Fate.SILENCE:
        assert not mine, f"acks=0 was answered: {frame}"
        return bool(answers)
    if fate is Fate.CLOSE:
        assert not mine, f"malformed, and answered: {frame}"
        return False
    assert mine, f"no answer: {frame}"
    try:
        decoded(answers.popleft(), frame.subject.response, frame.subject.version, frame.number)
    except ValueError as malformed:
        raise AssertionError(f"a malformed answer ({malformed}): {frame}") from malformed
    return True


def test_a_damaged_request_is_answered_or_ends_its_connection_and_harms_no_other(node: Node) -> None:
    topic_id = create(node.port, TOPIC)
    with Peer(
        node.port
    ) as peer:  # then groups are coordinated, and requests of theirs get further than to be sent away
        assert not peer.ask(FindCoordinatorRequest(key="g"), 2, FindCoordinatorResponse).error_code
    sent = 0
    for subject in SUBJECTS:
        frames = frames_of(subject, topic_id)
        check(node, frames)
        sent += len(frames)
        assert not complaints(node), f"{subject.name}: {complaints(node)}"
    assert sent >= 20_000


def complaints(node: Node) -> str:
    """The first exception that the node did not expect, as it logged it."""
    found = node.output.find("Traceback")
    return "" if found < 0 else node.output[max(0, found - 300) : found + 3000]


def test_the_node_that_met_them_all_stops_and_starts_as_ever(node: Node, tmp_path: Path) -> None:
    assert node.stop() == 0
    node.start()
    with Peer(node.port) as peer:
        assert TOPIC in [topic.name for topic in peer.ask(MetadataRequest(topics=None), 12, MetadataResponse).topics]
