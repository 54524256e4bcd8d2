"""Which cluster a tool connects to."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.cli import main, up
from highwater.cli.bootstrap import DATA_DIR, NONE_FOUND, VARIABLE, local_cluster
from highwater.log.names import LOCK

TOOLS = {
    "topics": "topics --list",
    "configs": "configs --describe --entity-type topics",
    "get-offsets": "get-offsets --topic t",
    "groups": "groups --list",
    "delete-records": "delete-records --offset-json-file f",
    "leader-election": "leader-election --election-type preferred --all-topic-partitions",
    "console-producer": "console-producer --topic t",
    "console-consumer": "console-consumer --topic t",
    "quorum": "quorum describe --status",
}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


@pytest.fixture
def addresses() -> Iterator[list[str]]:
    """Three addresses where nothing listens, each for itself."""
    with ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in bound:
            each.bind(("127.0.0.1", 0))
        yield [f"127.0.0.1:{each.getsockname()[1]}" for each in bound]


def write_nodes(data_dir: Path, *addresses: str, roles: str = "broker", pid: int | None = None) -> list[Path]:
    """Gives the lock of each node."""
    nodes, locks = [], []
    for number, address in enumerate(addresses, start=1):
        log_dir = data_dir.absolute() / f"node-{number}"
        log_dir.mkdir(parents=True)
        host, _, port = address.partition(":")
        nodes.append({
            "id": number, "roles": [roles], "pid": pid or os.getpid(), "host": host, "port": int(port),
            "log_dir": str(log_dir),
        })  # fmt: skip
        locks.append(log_dir / LOCK)
        locks[-1].touch()
    (data_dir / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    return locks


def test_the_brokers_of_a_data_directory_that_hold_their_locks_are_found(tmp_path: Path) -> None:
    first, second, _ = write_nodes(tmp_path, "h:1", "h:2", "h:3")
    with first.open(), second.open():
        assert local_cluster(tmp_path) == "h:1,h:2"
    assert local_cluster(tmp_path) is None, "this process is alive, but holds no lock any more"


def test_a_controller_is_no_bootstrap_server(tmp_path: Path) -> None:
    (lock,) = write_nodes(tmp_path, "h:1", roles="controller")
    with lock.open():
        assert local_cluster(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"nodes": [{}]}', '{"nodes": 3}', '{"nodes": [{"roles": ["broker"]}]}']
)
def test_a_list_of_nodes_that_cannot_be_read_names_no_cluster(tmp_path: Path, text: str) -> None:
    (tmp_path / "nodes.json").write_text(text)
    assert local_cluster(tmp_path) is None


def test_the_flag_wins_over_the_variable_and_the_variable_over_the_data_directory(
    directory: Path, addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flag, variable, local = addresses
    (lock,) = write_nodes(directory / DATA_DIR, local)
    with lock.open():
        assert f"cannot connect to {local}:" in CliRunner().invoke(main, ["topics", "--list"]).stdout
        monkeypatch.setenv(VARIABLE, variable)
        assert f"cannot connect to {variable}:" in CliRunner().invoke(main, ["topics", "--list"]).stdout
        done = CliRunner().invoke(main, ["topics", "--bootstrap-server", flag, "--list"])
        assert f"cannot connect to {flag}:" in done.stdout


@pytest.mark.parametrize("line", TOOLS.values(), ids=TOOLS.keys())
def test_without_a_cluster_a_tool_ends_with_one_line_that_says_how_to_name_one(directory: Path, line: str) -> None:
    done = CliRunner().invoke(main, line.split())
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"{NONE_FOUND}\n")


def test_the_data_directory_that_is_looked_at_is_the_default_of_up() -> None:
    (option,) = (each for each in up.command.params if each.name == "data_dir")
    assert option.default == str(DATA_DIR)
