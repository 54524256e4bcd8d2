"""IncrementalAlterConfigs (44): change settings of topics and brokers. Decided by the active controller."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import forward
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire import refusals
from highwater.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

API = Api(44, (0, 1), IncrementalAlterConfigsRequest)


def handle(broker: Broker, ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> None:
    forward(broker, ctx, request, lambda code: refusals.incremental_alter_configs(request, code))
