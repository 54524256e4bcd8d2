from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib.metadata import version as installed_version

import pytest

from highwater.client import BadAnswer, Connection, Disconnected, RequestTimeout, UnsupportedApi
from highwater.client.connection import SOFTWARE_NAME, _skip_tags
from highwater.errors import Code
from highwater.model import SOFTWARE_VERSION
from highwater.wire.codec import Malformed, Message
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from highwater.wire.messages.fetch_request import FetchRequest
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from tests.unit.client.fake_broker import FakeBroker, nobody


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({MetadataRequest: lambda request, version: MetadataResponse(cluster_id="c")}) as broker:
        yield broker


def connect(broker: FakeBroker, **options: float) -> Connection:
    return Connection(
        broker.endpoint, timeout=options.get("timeout", 30), max_response_bytes=int(options.get("most", 1 << 20))
    )


def frame(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def test_the_newest_version_of_both_sides_is_spoken(broker: FakeBroker) -> None:
    broker.ranges[MetadataRequest.API_KEY] = (0, 9)
    connection = connect(broker)

    assert connection.request(MetadataRequest(), MetadataResponse).cluster_id == "c"
    assert [version for _, version in broker.seen] == [9]
    assert connection.version(MetadataRequest, cap=4) == 4
    connection.close()


def test_an_api_without_a_common_version_is_refused_before_it_is_sent(broker: FakeBroker) -> None:
    broker.ranges[MetadataRequest.API_KEY] = (MetadataRequest.VERSIONS[1] + 1, MetadataRequest.VERSIONS[1] + 2)
    connection = connect(broker)

    assert not connection.offers(MetadataRequest)
    for api in (MetadataRequest, FetchRequest):
        with pytest.raises(UnsupportedApi):
            connection.version(api)
    assert broker.seen == []
    connection.close()


def test_an_old_server_is_asked_again_in_its_own_version() -> None:
    def old(request: ApiVersionsRequest, version: int) -> Message | bytes:
        keys = [
            ApiVersion(api_key=18, min_version=0, max_version=2),
            ApiVersion(api_key=3, min_version=1, max_version=2),
        ]
        if version > 2:
            refusal = ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=keys).encode(0)
            return frame(0, refusal)
        return ApiVersionsResponse(api_keys=keys)

    with FakeBroker({ApiVersionsRequest: old}) as broker:
        connection = connect(broker)
        assert [version for _, version in broker.seen] == [ApiVersionsRequest.VERSIONS[1], 2]
        assert connection.version(MetadataRequest) == 2
        connection.close()


def test_a_server_that_offers_nothing_to_agree_on_is_given_up() -> None:
    def never(request: ApiVersionsRequest, version: int) -> bytes:
        keys = [ApiVersion(api_key=18, min_version=0, max_version=99)]
        refusal = ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=keys).encode(0)
        return frame(ApiVersionsRequest.VERSIONS[1] - version, refusal)

    with FakeBroker({ApiVersionsRequest: never}) as broker, pytest.raises(UnsupportedApi):
        connect(broker)


def test_requests_may_be_pipelined_and_are_answered_in_order(broker: FakeBroker) -> None:
    connection = connect(broker)
    version = connection.version(MetadataRequest)
    first, second = (connection.send(MetadataRequest(), version) for _ in range(2))

    with pytest.raises(ValueError, match="not the oldest"):
        connection.receive(second, MetadataResponse)
    assert connection.receive(first, MetadataResponse) == connection.receive(second, MetadataResponse)
    connection.close()


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (frame(77), "answered request 77"),
        (struct.pack(">i", 1 << 30), "announced an answer of 1073741824 bytes"),
        (struct.pack(">i", -1), "announced an answer of -1 bytes"),
        (frame(1, b"\x00\xff"), "malformed MetadataResponse"),
        (frame(1, b"\xff\xff\xff\xff\xff\xff\xff"), "malformed MetadataResponse"),
    ],
    ids=["another request's answer", "too long", "negative", "cut off", "an endless tag section"],
)
def test_a_response_that_breaks_the_protocol_ends_the_connection(
    broker: FakeBroker, reply: bytes, complaint: str
) -> None:
    broker.answer(MetadataRequest, lambda request, version: reply)
    connection = connect(broker)

    with pytest.raises(BadAnswer, match=complaint):
        connection.request(MetadataRequest(), MetadataResponse)
    assert not connection.is_open


def test_a_lost_connection_is_distinguished_from_a_slow_answer(broker: FakeBroker) -> None:
    broker.answer(MetadataRequest, lambda request, version: None)
    with pytest.raises(Disconnected):
        connect(broker).request(MetadataRequest(), MetadataResponse)

    broker.answer(MetadataRequest, lambda request, version: b"")
    connection = connect(broker)
    with pytest.raises(RequestTimeout, match="no answer from"):
        connection.request(MetadataRequest(), MetadataResponse, timeout=0.05)
    assert not connection.is_open
    with pytest.raises(Disconnected, match="is closed"):
        connection.request(MetadataRequest(), MetadataResponse)


def test_a_deadline_holds_even_if_the_answer_is_there(broker: FakeBroker) -> None:
    connection = connect(broker)
    ticket = connection.send(MetadataRequest(), connection.version(MetadataRequest))
    with pytest.raises(RequestTimeout):
        connection.receive(ticket, MetadataResponse, timeout=0)


def test_a_half_answer_is_a_timeout_too(broker: FakeBroker) -> None:
    broker.answer(MetadataRequest, lambda request, version: frame(1, bytes(100))[:50])
    with pytest.raises(RequestTimeout):
        connect(broker).request(MetadataRequest(), MetadataResponse, timeout=0.05)


def test_a_refused_dial_names_the_address() -> None:
    with (
        nobody() as endpoint,
        pytest.raises(Disconnected, match=f"cannot connect to 127.0.0.1:{endpoint.port}: Connection refused"),
    ):
        Connection(endpoint, timeout=30)


def test_an_answer_longer_than_a_first_read_arrives_whole(broker: FakeBroker) -> None:
    long = MetadataResponse(topics=[MetadataResponseTopic(name=f"{number}" * 50) for number in range(2000)])
    broker.answer(MetadataRequest, lambda request, version: long)
    connection = connect(broker)
    for _ in range(3):
        assert connection.request(MetadataRequest(), MetadataResponse) == long
    connection.close()


def test_tagged_fields_of_a_response_header_are_passed_over() -> None:
    assert bytes(_skip_tags(memoryview(b"\x01\x05\x02xxbody"))) == b"body"
    with pytest.raises(Malformed):
        _skip_tags(memoryview(b"\x01\x05\x7fxx"))


def test_the_clients_software_version_is_the_installed_one() -> None:
    assert installed_version(SOFTWARE_NAME) == SOFTWARE_VERSION
