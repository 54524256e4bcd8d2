"""FindCoordinator (10): there are neither groups nor transactions here yet, so no coordinator is available.

It is served because librdkafka takes a broker that does not advertise v0 for one too old for lz4, and then sends
uncompressed batches without a word. Its consumers ask for the coordinator of their group id also where they read by
assignment: this answer lets them go on, a final one would not.
"""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

API = Api(10, (0, 6), FindCoordinatorRequest)
GROUP, TRANSACTION, SHARE = 0, 1, 2
_BATCHED_FROM = 4
_REASON = "Neither consumer groups nor transactions are supported by this version."


def handle(broker: Broker, ctx: RequestContext, request: FindCoordinatorRequest) -> None:
    known = request.key_type in (GROUP, TRANSACTION, SHARE)
    code, reason = (Code.COORDINATOR_NOT_AVAILABLE, _REASON) if known else (Code.INVALID_REQUEST, None)
    response = FindCoordinatorResponse(throttle_time_ms=ctx.throttle_ms)
    if ctx.version >= _BATCHED_FROM:
        response.coordinators = [
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=reason)
            for key in request.coordinator_keys
        ]
    else:
        response.error_code, response.error_message = code, reason
        response.node_id, response.host, response.port = -1, "", -1
    ctx.respond(response)
