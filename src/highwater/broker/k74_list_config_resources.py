"""ListConfigResources (74): which topics, brokers and other resources can have settings. v0 asks for client metrics."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.model import ResourceType
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.net.turns import Work
from highwater.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from highwater.wire.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

API = Api(74, (0, 1), ListConfigResourcesRequest)
_PER_PIECE = 50
KNOWN = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER)
"""The types that resources here can have. Client metrics and groups have no settings in this version."""
KAFKAS = (*KNOWN, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
"""The types that a client of Kafka may ask for."""


def handle(broker: Broker, ctx: RequestContext, request: ListConfigResourcesRequest) -> Work:
    response = ListConfigResourcesResponse(throttle_time_ms=ctx.throttle_ms)
    asked = set(request.resource_types) or (set(KAFKAS) if ctx.version >= 1 else {ResourceType.CLIENT_METRICS})
    if not ctx.authorize("DescribeConfigs", "Cluster", "kafka-cluster"):
        response.error_code = Code.CLUSTER_AUTHORIZATION_FAILED
    elif not asked <= set(KAFKAS):
        response.error_code = Code.UNSUPPORTED_VERSION
    else:
        for at, (kind, name) in enumerate(_resources(broker), 1):
            if kind in asked:
                response.config_resources.append(ctx.written(ConfigResource(resource_name=name, resource_type=kind)))
            if not at % _PER_PIECE:
                yield None
    ctx.respond(response)


def _resources(broker: Broker) -> Iterator[tuple[ResourceType, str]]:
    image = broker.metadata.image
    for topic in list(image.topics.by_name):
        yield ResourceType.TOPIC, topic
    for node in image.brokers.by_id:
        yield ResourceType.BROKER, str(node)
        yield ResourceType.BROKER_LOGGER, str(node)
