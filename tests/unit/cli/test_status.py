"""`status`, `quorum` and `leader-election` say what is wrong, and what there is to ask for."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from highwater.cli import main
from highwater.cli.status import show
from highwater.cli.status_quorum import full_disks, quorum_trouble
from highwater.cli.status_topics import Address
from tests.heeding import heed_signals


@pytest.fixture
def nobody_listens() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_data_directory_without_a_cluster_is_named(tmp_path: Path) -> None:
    done = run("status", "--data-dir", str(tmp_path))
    assert done.exit_code == 1
    assert f"{tmp_path}/nodes.json is not there: is `highwater up` running, with this --data-dir?" in done.output


def test_a_file_that_is_no_list_of_nodes_is_named(tmp_path: Path) -> None:
    for text in ("not JSON", "[]", json.dumps({"nodes": [{"id": 1}]})):
        (tmp_path / "nodes.json").write_text(text)
        done = run("status", "--data-dir", str(tmp_path))
        assert done.exit_code == 1
        assert "is no list of nodes as `highwater up` writes it" in done.output


def test_a_cluster_of_which_no_node_answers_is_reported_at_once(nobody_listens: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": [{"id": 1, "http": nobody_listens}]}))
    for arguments in (("--http", nobody_listens), ("--data-dir", str(tmp_path))):
        done = run("status", *arguments)
        assert done.exit_code == 1
        assert f"no node answers at {nobody_listens}: is the cluster running?" in done.output


@pytest.mark.parametrize(
    "line",
    [
        "quorum --bootstrap-server SERVER describe --status",
        "quorum --bootstrap-server SERVER describe --replication",
        "leader-election --bootstrap-server SERVER --election-type preferred --all-topic-partitions",
    ],
)
def test_a_broker_that_is_not_there_is_reported_at_once(nobody_listens: str, line: str) -> None:
    done = run(*line.replace("SERVER", nobody_listens).split())
    assert done.exit_code == 1
    assert done.output == f"cannot connect to {nobody_listens}: Connection refused\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("quorum --bootstrap-server h:1 describe", "One of --status or --replication must be specified"),
        (
            "quorum --bootstrap-server h:1 describe --status --replication",
            "Only one of --status or --replication should be specified",
        ),
        (
            "leader-election --bootstrap-server h:1 --election-type best --all-topic-partitions",
            "Unrecognized election type best: preferred or unclean",
        ),
        (
            "leader-election --bootstrap-server h:1 --election-type unclean --topic t",
            "Missing required option(s): partition",
        ),
    ],
)
def test_misuse_is_reported_with_the_reason(line: str, why: str) -> None:
    done = run(*line.split())
    assert done.exit_code == 1
    assert why in done.output


@pytest.mark.parametrize("noun", ["status", "quorum", "leader-election"])
def test_each_is_in_the_help_and_has_its_own(noun: str) -> None:
    assert noun in run("--help").output
    text = run(noun, "--help").output
    assert "Options:" in text and len(text.splitlines()) > 8


def test_the_help_of_a_subcommand_needs_no_server() -> None:
    done = run("quorum", "describe", "--help")
    assert done.exit_code == 0 and "--replication" in done.output


@contextlib.contextmanager
def status_server(asked: threading.Event) -> Iterator[str]:
    """A node that answers with its status, and notes that it was asked."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = {
                "node": 1,
                "quorum": {"role": "leader", "leader": 1, "epoch": 1, "high_watermark": 1, "voters": [1]},
            }
            body = json.dumps(page).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            asked.set()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def test_a_watch_goes_on_with_a_cluster_that_was_started_again(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    command = [sys.executable, "-m", "highwater", "status", "--watch", "--data-dir", str(tmp_path)]
    first_asked, second_asked = threading.Event(), threading.Event()
    with status_server(first_asked) as first, status_server(second_asked) as second:
        nodes.write_text(json.dumps({"nodes": [{"id": 1, "http": first}]}))
        # A shell that runs tests in the background has them ignore Ctrl-C.
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=heed_signals) as watching:
            try:
                assert first_asked.wait(60)
                nodes.unlink()
                nodes.write_text(json.dumps({"nodes": [{"id": 1, "http": second}]}))
                assert second_asked.wait(60)
            finally:
                watching.send_signal(signal.SIGINT)
        assert watching.returncode == 0


def quorum(leader: int | None, *voters: int) -> dict[str, object]:
    return {"quorum": {"leader": leader, "epoch": 3, "voters": list(voters)}}


def test_a_quorum_is_lost_when_too_many_of_those_asked_are_silent() -> None:
    one, two, three = (Address(str(node), f"h:{node}") for node in (1, 2, 3))
    whole = quorum(1, 1, 2, 3)
    assert quorum_trouble([(one, whole), (two, whole), (three, None)]) is None
    assert quorum_trouble([(one, whole)]) is None
    page = quorum_trouble([(one, whole), (two, None), (three, None)])
    assert page is not None and "no answer comes from 2,3, and 2 are needed" in page
    assert quorum_trouble([(one, quorum(None, 1, 2, 3)), (two, quorum(None, 1, 2, 3))]) == (
        "The quorum has no leader: its voters have not agreed on one."
    )


def observer(node: int, *voters: int) -> dict[str, object]:
    """A node whose directory was formatted anew: it answers under a voter's id, and is none."""
    page = {"role": "Follower", "leader": None, "epoch": 3, "high_watermark": 7, "voters": list(voters)}
    return {"node": node, "quorum": {**page, "is_voter": False}}


def test_a_voter_that_lost_its_directory_is_not_one_that_answers() -> None:
    one, two, three = (Address(str(node), f"h:{node}") for node in (1, 2, 3))
    answers = [(one, None), (two, observer(2, 1, 2, 3)), (three, {"node": 3, **quorum(None, 1, 2, 3)})]
    page = quorum_trouble(answers)
    assert page is not None and page.startswith(
        "The quorum is lost: of the voters 1,2,3 no answer comes from 1, and 2 lost its vote, and 2 are needed."
    )


def test_a_voter_that_lost_its_directory_is_shown_as_an_observer_with_what_to_do() -> None:
    leads = {"role": "Leader", "leader": 1, "epoch": 3, "high_watermark": 7, "voters": [1, 2, 3], "is_voter": True}
    answers = [
        (Address("1", "h:1"), {"node": 1, "quorum": leads}),
        (Address("2", "h:2"), observer(2, 1, 2, 3)),
        (Address("3", "h:3"), {"node": 3, "quorum": {**leads, "role": "Follower"}}),
        (Address("4", "h:4"), observer(4, 1, 2, 3)),
    ]
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(show(answers, None, 0))
    text = console.export_text()
    verdict, explained = text.splitlines()[:2]
    assert verdict.endswith("1 of 3 voters lost its vote")
    assert explained.startswith("node 2 votes no more: its directory was lost and formatted anew")
    assert "put the lost directory back" in text and text.count("Observer") == 2


def test_a_full_disk_is_reported_once_with_the_nodes_that_it_holds_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = [(Address(str(node), f"h:{node}", str(tmp_path)), None) for node in (1, 2)]
    answers += [(Address("3", "h:3", str(tmp_path / "gone")), None), (Address("4", "h:4"), None)]
    assert full_disks(answers) == []
    monkeypatch.setattr("highwater.cli.status_quorum.shortage", lambda path: "0 bytes are free")
    assert full_disks(answers) == [
        "The disk of nodes 1,2 is full (0 bytes are free): nothing is written there until there is room."
    ]


def test_a_node_is_asked_at_the_address_that_its_log_names_or_a_browser_shows() -> None:
    with status_server(threading.Event()) as at:
        for given in (at, f"http://{at}", f"http://{at}/", f"{at}/status"):
            done = run("status", "--http", given)
            assert done.exit_code == 0, done.output
    done = run("status", "--http", "127.0.0.1:nonsense")
    assert done.exit_code == 1 and "no node answers at 127.0.0.1:nonsense" in done.output
