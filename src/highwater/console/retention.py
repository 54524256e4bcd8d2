"""How long topics keep their records, by three of their settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from highwater.client import Client, ResourceType
from highwater.errors import Code
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_configs_response import DescribeConfigsResponse

SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")


class Retention(NamedTuple):
    """The values as texts: a browser's numbers are exact up to 2**53 only."""

    policy: str
    ms: str
    """-1: no bound, as with the next one."""
    bytes: str
    """Of one partition."""


def retentions(client: Client, topics: Sequence[str]) -> dict[str, Retention]:
    """Of those topics that the cluster describes. A topic that was just deleted is left out."""
    resources = [
        DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=list(SETTINGS))
        for name in topics
    ]
    if not resources:
        return {}
    answer = client.retrying(lambda: client.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse))
    found = {}
    for result in answer.results:
        values = {row.name: row.value for row in result.configs}
        if result.error_code == Code.NONE and all(values.get(name) is not None for name in SETTINGS):
            found[result.resource_name] = Retention(*(values[name] or "" for name in SETTINGS))
    return found
