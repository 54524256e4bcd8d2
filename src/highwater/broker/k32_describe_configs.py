"""DescribeConfigs (32): every setting of a topic or of this broker, its source and its synonyms."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.broker.broker_id import broker_id
from highwater.config import Row, describe_broker, describe_broker_default, describe_topic
from highwater.errors import Code, KafkaError
from highwater.metadata.configs import ResourceType, topic_resource
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_PER_PIECE = 20


def _refused(request: DescribeConfigsRequest, code: Code, version: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=code.description,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


API = Api(32, (1, 4), DescribeConfigsRequest, most_elements=MOST_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: DescribeConfigsRequest) -> Work:
    results = []
    # A resource that is named twice with the same keys is in the response once.
    named = {
        (each.resource_type, each.resource_name, tuple(each.configuration_keys or ())): each
        for each in request.resources
    }
    for resource in named.values():
        yield None
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            keys = set(resource.configuration_keys or ())
            for row in _rows(broker, ctx, resource, keys):
                result.configs.append(ctx.written(_encoded(row, request)))
                if len(result.configs) % _PER_PIECE == 0:
                    yield None
        except KafkaError as failed:
            result.error_code, result.error_message = failed.code, failed.message
        results.append(ctx.written(result))
    ctx.respond(DescribeConfigsResponse(throttle_time_ms=ctx.throttle_ms, results=results))


def _rows(broker: Broker, ctx: RequestContext, resource: DescribeConfigsResource, keys: set[str]) -> list[Row]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        if not ctx.authorize("DescribeConfigs", "Topic", name):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        if broker.metadata.topic(name) is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(broker.metadata.config, broker.metadata.image.configs.of(topic_resource(name)), keys)
    if not ctx.authorize("DescribeConfigs", "Cluster", "kafka-cluster"):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    if resource.resource_type == ResourceType.BROKER:
        if name == "":
            return describe_broker_default(broker.metadata.config, keys)
        if broker_id(name, "Broker") != broker.node_id:
            raise KafkaError(
                Code.INVALID_REQUEST,
                f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}",
            )
        return describe_broker(broker.metadata.config, keys)
    raise KafkaError(Code.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _encoded(row: Row, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in row.synonyms]
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.sensitive,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=row.kind,
        documentation=row.doc if request.include_documentation else None,
    )
