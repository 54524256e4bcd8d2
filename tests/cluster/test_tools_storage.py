"""storage formats directories as Apache's tool does: Apache Kafka starts on them, and both describe them alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.client import Admin, Client, NewTopic
from tests.apache import CLUSTER_ID, ApacheKafka, Ran
from tests.cluster.nodes import wait_until
from tests.cluster.tools import Call, call, masked, ours, reason
from tests.cluster.tools import apache as by_apache

VOTERS = "1@127.0.0.1:19093:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.2:19094:MvDxzVmcRsaTz33bUuRU6A"
FIXED = "controller.quorum.voters=1@127.0.0.1:19093"
DYNAMIC = "controller.quorum.bootstrap.servers=127.0.0.1:19093"
ONLY_OURS = " ".join(f"--feature {name}.version=0" for name in ("group", "share", "streams", "transaction"))
"""What brings Apache's defaults down to the features that Highwater has."""


class Node(NamedTuple):
    """What is done with the directories of one node, in this order."""

    quorum: str
    commands: tuple[str, ...]


FORMAT = f"format -t {CLUSTER_ID}"
NODES = {
    "standalone": Node(DYNAMIC, (f"{FORMAT} --standalone {ONLY_OURS}",)),
    "voters": Node(DYNAMIC, (f"{FORMAT} --initial-controllers {VOTERS} {ONLY_OURS}",)),
    "joins-later": Node(DYNAMIC, (f"{FORMAT} --no-initial-controllers {ONLY_OURS}",)),
    "old-release": Node(DYNAMIC, (f"{FORMAT} -s --release-version 3.9 {ONLY_OURS}",)),
    "more-features": Node(DYNAMIC, (f"{FORMAT} -s {ONLY_OURS} --feature transaction.version=2",)),
    "no-quorum": Node(DYNAMIC, (FORMAT,)),
    "no-such-release": Node(DYNAMIC, (f"{FORMAT} --standalone --release-version nope",)),
    "two-releases": Node(DYNAMIC, (f"{FORMAT} --standalone -r 4.3 -f metadata.version=30",)),
    "no-such-feature": Node(DYNAMIC, (f"{FORMAT} --standalone --feature nope.version=1",)),
    "fixed": Node(FIXED, (f"{FORMAT} {ONLY_OURS}",)),
    "fixed-and-standalone": Node(FIXED, (f"{FORMAT} --standalone",)),
    "described": Node(
        DYNAMIC,
        (
            "info",
            f"{FORMAT} -I {VOTERS} {ONLY_OURS}",
            "info",
            f"{FORMAT} -I {VOTERS} {ONLY_OURS}",
            f"{FORMAT} -I {VOTERS} {ONLY_OURS} --ignore-formatted",
        ),
    ),
}


def prepare(directory: Path) -> list[Call]:
    """A configuration for each node, with two data directories; gives all commands."""
    calls = []
    for name, node in NODES.items():
        home = directory / name
        home.mkdir(parents=True)
        config = home / "server.properties"
        config.write_text(
            f"process.roles=broker,controller\nnode.id=1\n{node.quorum}\nlog.dirs={home}/data-0,{home}/data-1\n"
            "listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093\ncontroller.listener.names=CONTROLLER\n"
        )
        for command in node.commands:
            verb, *flags = command.split()
            calls.append(call("storage", verb, "-c", str(config), *flags))
    return calls


class Formatted(NamedTuple):
    home: Path
    results: dict[str, list[Ran]]


def by_node(home: Path, results: list[Ran]) -> Formatted:
    remaining = iter(results)
    return Formatted(home, {name: [next(remaining) for _ in node.commands] for name, node in NODES.items()})


@pytest.fixture(scope="module")
def theirs(apache: None, tmp_path_factory: pytest.TempPathFactory) -> Formatted:
    home = tmp_path_factory.mktemp("formatted") / "node"
    return by_node(home, by_apache(prepare(home)))


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Formatted:
    home = tmp_path_factory.mktemp("formatted") / "node"
    return by_node(home, [ours(each) for each in prepare(home)])


def comparable(text: str, home: Path) -> list[str]:
    """Directories are formatted in no certain order, and have ids of their own."""
    plain = text.replace(str(home), "HOME")
    return sorted(re.sub(r"directory\.id=\S{22}", "directory.id=<id>", line) for line in plain.splitlines())


@pytest.mark.parametrize("name", NODES)
def test_the_tool_says_the_same(theirs: Formatted, mine: Formatted, name: str) -> None:
    for expected, found in zip(theirs.results[name], mine.results[name], strict=True):
        assert comparable(found.stdout, mine.home) == comparable(expected.stdout, theirs.home)
        assert found.rc == expected.rc
        if expected.rc and not expected.stdout:
            # Of several directories any may be the one that is named.
            our_reason, their_reason = (re.sub(r"/data-\d", "/data-N", reason(r.stderr)) for r in (found, expected))
            assert comparable(our_reason, mine.home) == comparable(their_reason, theirs.home)


def dumped(path: Path) -> list[str]:
    done = ours(call("dump-log", "--cluster-metadata-decoder", "--files", str(path)))
    return [re.sub(r"crc: \d+", "crc: <crc>", line) for line in masked(done.stdout)[1:]]


@pytest.mark.parametrize("name", ["voters", "joins-later", "old-release", "more-features", "fixed"])
def test_the_same_files_are_written(theirs: Formatted, mine: Formatted, name: str) -> None:
    """Equal but for times and ids, and the checksums over them."""
    homes = [formatted.home / name for formatted in (theirs, mine)]
    found = [sorted(path.relative_to(home) for path in home.rglob("data-*/**/*") if path.is_file()) for home in homes]
    assert found[1] == found[0]
    for relative in found[1]:
        one, other = (home / relative for home in homes)
        if relative.suffix == ".checkpoint":
            assert other.stat().st_size == one.stat().st_size
            if name == "voters":
                assert dumped(other) == dumped(one)
        elif relative.name == "meta.properties":
            lines = [
                comparable("\n".join(line for line in path.read_text().splitlines() if not line.startswith("#")), path)
                for path in (one, other)
            ]
            assert lines[1] == lines[0]


def test_a_voter_s_directory_has_the_id_that_its_voter_set_names(mine: Formatted) -> None:
    text = (mine.home / "voters/data-0/meta.properties").read_text()
    assert "directory.id=JEXY6aqzQY-32P5TStzaFg\n" in text


def test_apache_kafka_starts_on_a_directory_that_we_formatted(apache: None, tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "cluster")
    path = kafka.config_of(1)
    path.parent.mkdir(parents=True)
    # Apache's share groups are a feature that we refuse to be configured for.
    properties = {key: value for key, value in kafka._server_properties(1).items() if not key.startswith("share.")}
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    done = ours(call("storage", "format", "-t", CLUSTER_ID, "-c", str(path), "--standalone"))
    assert done.rc == 0, done.stderr
    try:
        kafka.start()
        with Client(kafka.bootstrap) as client:
            admin = Admin(client)
            admin.create_topics([NewTopic("made", partitions=2)])
            assert admin.describe_cluster().cluster_id == CLUSTER_ID
            wait_until(lambda: list(admin.list_topics()) == ["made"])
            (quorum,) = admin.describe_quorum().topics[0].partitions
            assert [voter.replica_id for voter in quorum.current_voters] == [1]
            assert quorum.current_voters[0].replica_directory_id != bytes(16)
    finally:
        kafka.kill()
