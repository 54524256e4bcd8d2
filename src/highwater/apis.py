"""What each listener answers, derived from the declarations that stand beside the handlers.

A handler file in `broker/` is for the listeners of brokers, one in `raft_node/` for those of controllers. A forwarded
API of the controller is answered by both. To add an API, add its handler file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from highwater import broker, raft_node
from highwater.broker import own_settings
from highwater.broker.broker import Broker
from highwater.broker.forwarding import as_it_came, pass_on
from highwater.net.api_versions import API_VERSIONS, Features, register_api_versions
from highwater.net.registry import Api, Handler, Registry, Role, handlers_of
from highwater.raft_node.active import ActiveController
from highwater.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

_CHECKED_FIRST: Final = {IncrementalAlterConfigsRequest.API_KEY: own_settings.pass_on}
"""Forwarded APIs of which a broker checks something itself first."""


def _passed_on(api: Api) -> Handler:
    return Handler(as_it_came(api), partial(_CHECKED_FIRST.get(api.key, pass_on), api))


_OF_CONTROLLERS: Final = handlers_of(raft_node)
_OF_BROKERS: Final = (*handlers_of(broker), *(_passed_on(each.api) for each in _OF_CONTROLLERS if each.api.forwarded))
_HANDLERS: Final[Mapping[Role, tuple[Handler, ...]]] = {Role.BROKER: _OF_BROKERS, Role.CONTROLLER: _OF_CONTROLLERS}

APIS: Final[Mapping[Role, list[Api]]] = {
    role: sorted((API_VERSIONS, *(each.api for each in handlers)), key=lambda api: api.key)
    for role, handlers in _HANDLERS.items()
}
"""All that the listeners of each role answer, by key."""


def registry_of(role: Role, part: Broker | ActiveController, features: Callable[[], Features]) -> Registry:
    """What the listeners of `role` answer on behalf of this broker or controller."""
    registry = Registry(role)
    register_api_versions(registry, features)
    for api, handle in _HANDLERS[role]:
        registry.add(api, partial(handle, part))
    return registry
