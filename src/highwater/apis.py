"""The APIs of each listener, derived from the declarations beside the handlers.

A handler file in `broker/` is for the listeners of brokers. A handler file in `raft_node/` (the quorum) or
`active_controller/` is for the listeners of controllers. If its API is forwarded, brokers accept it, too, and forward
it. To add an API, add its handler file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from highwater import active_controller, broker, raft_node
from highwater.active_controller.active_controller import ActiveController
from highwater.broker import own_settings
from highwater.broker.broker import Broker
from highwater.broker.forwarding import as_it_came, pass_on
from highwater.net.api_versions import API_VERSIONS, Features, register_api_versions
from highwater.net.registry import Api, Handler, Registry, Role, handlers_of
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

_CHECKED_FIRST: Final = {IncrementalAlterConfigsRequest.API_KEY: own_settings.pass_on}
"""Forwarded APIs of which the broker itself checks something first."""


def _passed_on(api: Api) -> Handler:
    return Handler(as_it_came(api), partial(_CHECKED_FIRST.get(api.key, pass_on), api))


_OF_QUORUM: Final = handlers_of(raft_node)
_OF_CONTROLLER: Final = handlers_of(active_controller)
_FORWARDED: Final = [each.api for each in (*_OF_QUORUM, *_OF_CONTROLLER) if each.api.forwarded]
_OF_BROKER: Final = (*handlers_of(broker), *map(_passed_on, _FORWARDED))

APIS: Final[Mapping[Role, list[Api]]] = {
    role: sorted((API_VERSIONS, *(each.api for each in handlers)), key=lambda api: api.key)
    for role, handlers in ((Role.BROKER, _OF_BROKER), (Role.CONTROLLER, (*_OF_QUORUM, *_OF_CONTROLLER)))
}
"""All handlers for the listeners of each role, by key."""


def broker_registry(broker: Broker, features: Callable[[], Features]) -> Registry:
    return _registry(Role.BROKER, ((each, broker) for each in _OF_BROKER), features)


def controller_registry(raft: RaftNode, controller: ActiveController, features: Callable[[], Features]) -> Registry:
    quorum = ((each, raft) for each in _OF_QUORUM)
    deciding = ((each, controller) for each in _OF_CONTROLLER)
    return _registry(Role.CONTROLLER, (*quorum, *deciding), features)


def _registry(role: Role, handlers: Iterable[tuple[Handler, Any]], features: Callable[[], Features]) -> Registry:
    """Each handler comes with the part of the node that it uses."""
    registry = Registry(role)
    register_api_versions(registry, features)
    for (api, handle), part in handlers:
        registry.add(api, partial(handle, part))
    return registry
