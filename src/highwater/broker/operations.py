"""The operations that a client may do on a resource, as a bit field for describe responses."""

from __future__ import annotations

from highwater.net.context import RequestContext

_CODES = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}
_OF_TOPICS = ("Read", "Write", "Create", "Delete", "Alter", "Describe", "DescribeConfigs", "AlterConfigs")
_OF_GROUPS = ("Read", "Delete", "Describe", "DescribeConfigs", "AlterConfigs")
_OF_CLUSTER = ("Create", "Alter", "Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite")


def on_topic(ctx: RequestContext, name: str) -> int:
    return sum(1 << _CODES[operation] for operation in _OF_TOPICS if ctx.authorize(operation, "Topic", name))


def on_group(ctx: RequestContext, group_id: str) -> int:
    return sum(1 << _CODES[operation] for operation in _OF_GROUPS if ctx.authorize(operation, "Group", group_id))


def on_cluster(ctx: RequestContext) -> int:
    return sum(
        1 << _CODES[operation] for operation in _OF_CLUSTER if ctx.authorize(operation, "Cluster", "kafka-cluster")
    )
