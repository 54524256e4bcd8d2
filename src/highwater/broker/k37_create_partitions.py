"""CreatePartitions (37): give topics more partitions. Decided by the active controller."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import Asked, as_it_came, forward
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire import refusals
from highwater.wire.codec import Message
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest

API = Api(37, (0, 3), CreatePartitionsRequest, decode=as_it_came(CreatePartitionsRequest))


def handle(broker: Broker, ctx: RequestContext, asked: Asked[CreatePartitionsRequest]) -> None:
    def failed(code: Code, body: memoryview) -> Message:
        return refusals.create_partitions(CreatePartitionsRequest.decode(body, ctx.version), code)

    forward(broker, ctx, asked.body, failed)
