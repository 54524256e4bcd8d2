"""CreatePartitions (37): give topics more partitions. Decided by the active controller."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import forward
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire import refusals
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest

API = Api(37, (0, 3), CreatePartitionsRequest)


def handle(broker: Broker, ctx: RequestContext, request: CreatePartitionsRequest) -> None:
    forward(broker, ctx, request, lambda code: refusals.create_partitions(request, code))
