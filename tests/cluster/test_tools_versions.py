"""What brokers speak, by Apache's tools and by ours: the same lines of Apache Kafka and of a node of ours."""

from __future__ import annotations

import json
import re

import pytest

from highwater.cli.kafka_apis import KNOWN_APIS
from tests.apache import free_ports
from tests.cluster.tools import Server, apache, call, difference, ours, reason

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]


def comparable(text: str) -> list[str]:
    """The epoch of features grows all the while."""
    return re.sub(r" Epoch: \d+", " Epoch: <n>", text).splitlines()


@pytest.mark.parametrize("line", ["broker-api-versions", "features describe", "features describe --node-id 1"])
def test_versions_are_shown_in_the_same_lines(server: Server, line: str) -> None:
    tool, *args = line.split()
    asked = call(tool, "--bootstrap-server", server.bootstrap, *args)
    [theirs], found = apache([asked]), ours(asked)
    expected, shown = comparable(theirs.stdout), comparable(found.stdout)
    assert shown == expected, difference(expected, shown)
    assert (found.rc, theirs.rc) == (0, 0)
    assert len(shown) > 2


def test_versions_are_shown_as_json(server: Server) -> None:
    [broker] = json.loads(
        ours(call("broker-api-versions", "--bootstrap-server", server.bootstrap, "-o", "json")).stdout
    )
    assert broker["address"] == server.bootstrap
    assert {"key": 3, "name": "Metadata", "min_version": 0, "max_version": 13} in broker["apis"]
    assert all(KNOWN_APIS[api["key"]].name == api["name"] for api in broker["apis"])
    found = json.loads(ours(call("features", "--bootstrap-server", server.bootstrap, "describe", "-o", "json")).stdout)
    [level] = [each["level"] for each in found["features"] if each["feature"] == "metadata.version"]
    assert level == 30 and found["epoch"] > 0


def test_a_server_that_is_not_there_ends_the_tool() -> None:
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    for tool, *args in (("broker-api-versions",), ("features", "describe")):
        done = ours(call(tool, "--bootstrap-server", nowhere, *args))
        assert done.rc == 1
        assert reason(done.stderr) == f"cannot connect to {nowhere}: Connection refused"
