"""Settings that bound what clients may ask for, as the server gets them."""

from __future__ import annotations

from highwater.errors import Code, code_of
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from highwater.wire.records import APPEND_LIMIT
from tests.unit.broker.living import Living


def test_queued_max_requests_bounds_the_unanswered_requests_of_a_connection() -> None:
    with Living(queued_max_requests="7").start() as living:
        assert living.node.server.limits.slots == 7


def test_queued_max_request_bytes_is_a_bound_unless_it_is_minus_one() -> None:
    with Living(queued_max_request_bytes="-1").start() as living:
        assert living.node.server.limits.queued_bytes > 2**60
        assert living.node.server.budget.bound == living.node.server.limits.slot_bytes


def test_connections_max_idle_ms_of_minus_one_closes_no_connection() -> None:
    with Living(connections_max_idle_ms="-1").start() as living:
        assert living.node.server.limits.idle_seconds == float("inf")


def test_the_default_limits_are_finite() -> None:
    with Living().start() as living:
        limits = living.node.server.limits
        assert (limits.connections, limits.queued_bytes) == (10_000, (128 << 20) - APPEND_LIMIT)


def test_request_timeout_ms_bounds_the_creation_of_a_topic_that_a_client_asked_for() -> None:
    with Living(request_timeout_ms="2000").start() as living:
        channel = living.node.broker.controller
        found, channel._controller = channel._controller, lambda: None
        living.world.call(channel.controller_moved)

        def asks(name: str) -> Code:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            return code_of(living.ask(asked, MetadataResponse, 12).topics[0].error_code)

        assert asks("too-early") is Code.UNKNOWN_TOPIC_OR_PARTITION
        living.sim.advance(1.5)
        assert asks("in-time") is Code.UNKNOWN_TOPIC_OR_PARTITION
        living.sim.advance(1.0)
        channel._controller = found
        broker = living.node.broker
        assert broker is not None
        living.sim.run(living.sim.until(lambda: broker.metadata.topic("in-time") is not None))
        assert broker.metadata.topic("too-early") is None
