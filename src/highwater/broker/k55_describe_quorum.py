"""DescribeQuorum (55): the state of the metadata quorum, asked of its leader."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.forwarding import Asked, as_it_came, forward
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest
from highwater.wire.messages.describe_quorum_response import DescribeQuorumResponse

API = Api(55, (0, 2), DescribeQuorumRequest, decode=as_it_came(DescribeQuorumRequest))


def handle(broker: Broker, ctx: RequestContext, asked: Asked[DescribeQuorumRequest]) -> None:
    forward(broker, ctx, asked.body, lambda code, _: DescribeQuorumResponse(error_code=code))
