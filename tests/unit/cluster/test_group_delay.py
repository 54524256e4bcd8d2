"""A group of an embedded cluster is there at once, unless its user wants otherwise."""

from __future__ import annotations

import pytest

from highwater import Cluster
from highwater.client import Admin, Client, ResourceType

DELAY = "group.initial.rebalance.delay.ms"


@pytest.mark.parametrize(("config", "delay"), [({}, "0"), ({DELAY: 3000}, "3000")])
def test_the_first_member_of_a_group_does_not_wait_for_others(config: dict[str, object], delay: str) -> None:
    with Cluster(brokers=1, config=config) as cluster, Client(cluster.bootstrap_servers) as client:
        settings = Admin(client).describe_configs(ResourceType.BROKER, ["1"])["1"]
    assert [each.value for each in settings if each.name == DELAY] == [delay]
