"""`highwater lab` on a terminal: keys, names and completion. The experiments themselves are in tests/cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.cli import main
from highwater.lab.frame import Frame, Recording, Words
from tests.terminal import Terminal

PICTURES = [Frame(Words(f"picture {number}", f"그림 {number}"), Words("x", "가"), {}) for number in (1, 2, 3)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "three.jsonl"
    path.write_text("\n".join(Recording("three", Words("three", "셋"), PICTURES).lines()) + "\n")
    return path


def stepping(file: Path, *options: str) -> Terminal:
    return Terminal([sys.executable, "-m", "highwater", "lab", "replay", str(file), "--step", *options], 60, 24)


@pytest.mark.slow
def test_each_key_shows_the_next_picture_and_nothing_is_asked_after_the_last(file: Path) -> None:
    with stepping(file, "--lang", "ko") as terminal:
        terminal.until("그림 1", "q: 끝내기")
        terminal.type(" ")
        terminal.until("그림 2", "q: 끝내기")
        terminal.type("\n")
        terminal.until("그림 3")
        assert terminal.ended() == 0 and terminal.is_sane
    assert terminal.text.count("q: 끝내기") == 2


@pytest.mark.slow
@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130)])
def test_q_and_ctrl_c_end_it_before_the_next_picture(file: Path, key: str, code: int) -> None:
    with stepping(file) as terminal:
        terminal.until("picture 1", "q: quit")
        terminal.type(key)
        assert terminal.ended() == code and terminal.is_sane
    assert "picture 2" not in terminal.text and "Aborted" not in terminal.text


def test_without_a_terminal_no_key_is_waited_for(file: Path) -> None:
    done = CliRunner().invoke(main, ["lab", "replay", str(file), "--step"])
    assert done.exit_code == 0 and "picture 3" in done.output and "q: quit" not in done.output


def test_a_run_without_a_name_says_where_the_names_are() -> None:
    done = CliRunner().invoke(main, ["lab", "run"])
    assert done.exit_code == 2 and "`highwater lab list` has the experiments" in done.stderr


def test_names_of_experiments_are_completed() -> None:
    typed = {"_HIGHWATER_COMPLETE": "bash_complete", "COMP_WORDS": "highwater lab run co", "COMP_CWORD": "3"}
    done = CliRunner().invoke(main, [], prog_name="highwater", env=typed)
    assert done.output.split() == ["plain,counting-messages", "plain,controller-failover"]
