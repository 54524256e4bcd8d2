"""DescribeCluster (60): the cluster id and the brokers. v1 distinguishes brokers and controllers, v2 shows fenced
ones."""

from __future__ import annotations

from highwater.broker import operations
from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.describe_cluster_request import DescribeClusterRequest
from highwater.wire.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

API = Api(60, (0, 2), DescribeClusterRequest)
BROKERS = 1


def handle(broker: Broker, ctx: RequestContext, request: DescribeClusterRequest) -> None:
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == 2
        ctx.respond(
            DescribeClusterResponse(
                throttle_time_ms=ctx.throttle_ms,
                error_code=Code.MISMATCHED_ENDPOINT_TYPE if known else Code.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="The request was sent to an endpoint of the wrong type.",
            )
        )
        return
    brokers = broker.metadata.image.brokers.by_id.values()
    shown: dict[int, bool] = {
        node.id: node.fenced for node in brokers if not node.fenced or request.include_fenced_brokers
    }
    response = DescribeClusterResponse(
        throttle_time_ms=ctx.throttle_ms,
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=shown[node.id]
            )
            for node in broker.metadata.node_endpoints(shown, ctx.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations.on_cluster(ctx)
    ctx.respond(response)
