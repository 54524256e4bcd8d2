"""`highwater top` on a terminal: it is live, obeys keys, and leaves the terminal as it was."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.stage import Stage, staged
from tests.terminal import Terminal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("top") / "data", 3) as stage:
        stage.create_topic_on("watched", [1, 2, 3])
        yield stage


def top(stage: Stage, columns: int = 100) -> Terminal:
    return Terminal([sys.executable, "-m", "highwater", "top", "--data-dir", str(stage.directory)], columns, 24)


def test_a_node_that_stops_answering_is_shown_and_q_leaves_a_sane_terminal(stage: Stage) -> None:
    with top(stage) as terminal:
        terminal.until("3 of 3 brokers, 1 partition, all in sync", "watched-0", "1★", "q quit")
        stage.pause(3)
        terminal.type("j")
        terminal.until("paused: highwater resume 3", "1 of 3 voters is down")
        stage.resume(3)
        terminal.type("i")
        terminal.until("3 of 3 brokers")
        terminal.type("q")
        assert terminal.ended() == 0
        assert terminal.is_sane


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_leaves_a_sane_terminal(stage: Stage, number: signal.Signals) -> None:
    with top(stage, 60) as terminal:
        terminal.until("watched-0")
        terminal.process.send_signal(number)
        assert terminal.ended() == 0
        assert terminal.is_sane


def test_ctrl_c_typed_at_the_terminal_ends_it(stage: Stage) -> None:
    with top(stage) as terminal:
        terminal.until("watched-0")
        terminal.type("\x03")
        assert terminal.ended() == 0
        assert terminal.is_sane


def test_a_directory_without_a_cluster_is_named_before_the_screen_changes(tmp_path: Path) -> None:
    with Terminal([sys.executable, "-m", "highwater", "top", "--data-dir", str(tmp_path)], 100, 24) as terminal:
        assert terminal.ended() == 1
        assert "nodes.json is not there" in terminal.text and "\x1b[?1049h" not in terminal.raw
