"""`highwater cluster` beside Apache's tool: the id of a cluster, and a broker that leaves it for good."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater import Cluster
from highwater.client import Admin, Client
from tests.cluster.stage import wait_until
from tests.cluster.tools import apache, call, ours

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, controllers=1) as cluster:
        yield cluster


def test_both_tools_show_the_same_cluster_id(cluster: Cluster) -> None:
    asked = call("cluster", "cluster-id", "--bootstrap-server", cluster.bootstrap_servers)
    found, [theirs] = ours(asked), apache([asked])
    assert (found.rc, found.stdout) == (theirs.rc, theirs.stdout)
    assert found.stdout.startswith("Cluster ID: ")


def test_both_tools_list_the_same_endpoints_of_brokers_that_serve_and_that_do_not(cluster: Cluster) -> None:
    asked = call("cluster", "list-endpoints", "--bootstrap-server", cluster.bootstrap_servers)
    with_fenced = asked._replace(args=(*asked.args, "--include-fenced-brokers"))
    cluster.stop(3)
    with Client(cluster.bootstrap_servers) as client:
        wait_until(lambda: len(Admin(client).describe_cluster().brokers) == 2, "it is fenced")
    theirs = apache([asked, with_fenced])
    found = [ours(asked), ours(with_fenced)]
    cluster.start(3)
    assert [(ran.rc, ran.stdout) for ran in found] == [(ran.rc, ran.stdout) for ran in theirs]
    states = [[line.split()[4] for line in ran.stdout.splitlines()] for ran in found]
    assert states == [["STATE", "unfenced", "unfenced"], ["STATE", "unfenced", "unfenced", "fenced"]]


@pytest.mark.parametrize(("broker", "is_ours"), [(3, True), (2, False)])
def test_a_broker_that_was_stopped_can_be_unregistered_by_either_tool(
    cluster: Cluster, broker: int, is_ours: bool
) -> None:
    asked = call("cluster", "unregister", "--bootstrap-server", cluster.bootstrap_servers, "--id", str(broker))
    with Client(cluster.bootstrap_servers) as client:
        assert broker in known(client)
        cluster.stop(broker)
        done = ours(asked) if is_ours else apache([asked])[0]
        assert (done.rc, done.stdout) == (0, f"Broker {broker} is no longer registered.\n"), done.stderr
        wait_until(lambda: broker not in known(client), "the broker is gone")


def known(client: Client) -> set[int]:
    return {broker.id for broker in Admin(client).describe_cluster(fenced=True).brokers}


def test_a_broker_that_is_not_registered_is_named(cluster: Cluster) -> None:
    refused = ours(call("cluster", "unregister", "--bootstrap-server", cluster.bootstrap_servers, "--id", "77"))
    assert (refused.rc, refused.stdout) == (1, "")
    assert refused.stderr == "Broker ID 77 is not currently registered\n"
