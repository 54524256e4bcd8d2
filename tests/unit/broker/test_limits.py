"""Settings that bound what clients may ask for, as the server gets them."""

from __future__ import annotations

from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from tests.unit.broker.living import Living


def test_queued_max_requests_bounds_the_unanswered_requests_of_a_connection() -> None:
    with Living(queued_max_requests="7").start() as living:
        assert living.node.server.limits.slots == 7


def test_queued_max_request_bytes_is_a_bound_unless_it_is_minus_one() -> None:
    with Living(queued_max_request_bytes="-1").start() as living:
        assert living.node.server.limits.queued_bytes > 2**60
        assert living.node.server.budget.bound == living.node.server.limits.slot_bytes


def test_the_default_limits_are_finite() -> None:
    with Living().start() as living:
        limits = living.node.server.limits
        assert (limits.connections, limits.queued_bytes) == (10_000, 128 << 20)


def test_request_timeout_ms_bounds_the_creation_of_a_topic_that_a_client_asked_for() -> None:
    with Living(request_timeout_ms="2000").start() as living:
        living.node._channel._controller = lambda: None
        living.world.call(living.node._channel.controller_moved)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        began = living.sim.now
        answer = living.ask(asked, MetadataResponse, 12)
        assert 2.0 <= living.sim.now - began < 3.0
        assert [topic.error_code for topic in answer.topics] != [0]
