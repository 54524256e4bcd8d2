"""What a broker checks in IncrementalAlterConfigs (44) before it forwards the request: changes of its own settings."""

from __future__ import annotations

from collections import Counter

from highwater.broker.broker import Broker
from highwater.broker.broker_id import broker_id
from highwater.broker.forwarding import Asked, forward
from highwater.config import ConfigError
from highwater.config.alteration import Alteration
from highwater.errors import Code, KafkaError
from highwater.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ResourceType
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

Refused = dict[int, AlterConfigsResourceResponse]
"""Responses, by the index of their resource in the request."""


def pass_on(api: Api, broker: Broker, ctx: RequestContext, asked: Asked[IncrementalAlterConfigsRequest]) -> None:
    request = asked.request
    refused = _refused(broker, request.resources)
    rest = [resource for at, resource in enumerate(request.resources) if at not in refused]
    if not refused:
        forward(api, broker, ctx, asked.body)
    elif not rest:
        ctx.respond(_joined(refused, IncrementalAlterConfigsResponse()))
    else:
        smaller = IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only)
        forward(api, broker, ctx, smaller.encode(ctx.version), lambda decided: _joined(refused, decided))


def _refused(broker: Broker, resources: list[AlterConfigsResource]) -> Refused:
    """The settings of a broker can only be changed through that broker: only it can check whether it can use them."""
    found: Refused = {}
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    for at, resource in enumerate(resources):
        if resource.resource_type != ResourceType.BROKER or times[resource.resource_type, resource.resource_name] > 1:
            continue  # the controller refuses a resource that is named twice
        try:
            if resource.resource_name and broker_id(resource.resource_name, "Node") != broker.node_id:
                why = f"expected {broker.node_id}, but received {resource.resource_name}"
                raise KafkaError(Code.INVALID_REQUEST, f"Unexpected broker id, {why}")
            _check_suits(broker, resource)
        except KafkaError as error:
            found[at] = AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
    return found


def _check_suits(broker: Broker, asked: AlterConfigsResource) -> None:
    """Checks the change against the static settings of this broker, which the controller does not know. The controller
    checks everything else."""
    resource = ConfigResource(asked.resource_type, asked.resource_name)
    after = dict(broker.metadata.image.configs.of(resource))
    for each in asked.configs:
        try:
            value = Alteration(each.name, each.config_operation, each.value).of(after.get(each.name), of_topic=False)
        except KafkaError:
            return
        after.pop(each.name, None)
        if value is not None:
            after[each.name] = value
    config = broker.metadata.config
    own, default = (config.dynamic, after) if resource == CLUSTER_DEFAULT else (after, config.dynamic_default)
    try:
        config.with_dynamic(own, default)
    except ConfigError as problem:
        raise KafkaError(Code.INVALID_CONFIG, str(problem)) from None


def _joined(refused: Refused, decided: IncrementalAlterConfigsResponse) -> IncrementalAlterConfigsResponse:
    """Both, in the order of the request."""
    for at, answer in sorted(refused.items()):
        decided.responses.insert(at, answer)
    return decided
