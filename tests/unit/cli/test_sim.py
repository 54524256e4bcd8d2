"""`highwater sim`: its options, and what it prints of a search."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from highwater.cli.sim import command
from highwater.sim.search import exploring
from highwater.sim.search.scope import SCOPES
from tests.apache import ROOT


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--seed", "1", "--seeds", "2"),
        ("--seed", "1", "--search", "all"),
        ("--seeds", "1", "--budget", "1"),
        ("--seeds", "1", "--branches"),
    ],
)
def test_seeds_and_a_search_do_not_go_together(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert "--search" in done.output


def test_a_search_reports_how_far_it_came() -> None:
    done = run("--search", "pair", "--budget", "0")
    assert done.exit_code == 0
    assert "at most 0 faults" in done.output
    assert "all of it" in done.output
    assert "ended early" in run("--search", "pair", "--states", "30").output


def test_a_search_shows_its_progress_on_a_terminal_alone() -> None:
    done = run("--search", "pair", "--states", "30")
    assert done.stderr == "" and "\r" not in done.output
    own, terminal = os.openpty()
    try:
        command = [sys.executable, "-m", "highwater", "sim", "--search", "pair", "--states", "30"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=terminal, check=True)
        assert b"\rpair: 1 states, depth 0" in os.read(own, 1 << 16)
    finally:
        os.close(own)
        os.close(terminal)


def test_the_document_lists_every_scope_with_its_number_of_faults() -> None:
    text = (ROOT / "docs/simulation.md").read_text().partition("The scopes, each with")[2].partition("Some rules")[0]
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ") and "scope" not in line]
    assert [(name.strip(), int(faults)) for name, faults in rows] == [(s.name, s.budget) for s in SCOPES.values()]


def test_a_search_lists_the_branches_that_it_did_not_reach() -> None:
    printed = run("--search", "pair", "--budget", "0", "--branches").output.splitlines()
    at = next(number for number, line in enumerate(printed) if line.startswith("branches of replication: "))
    assert int(printed[at].rsplit(" ", 1)[1]) * 2 == len(printed) - at - 1
    assert "reconciliation.py:34: first_batch is never called" not in printed, "the follower has asked it"
    refused = next(number for number, line in enumerate(printed) if line.endswith(": refused is never called"))
    assert printed[refused + 1] == "    def refused(self, code: Code) -> bool:"


def test_a_search_reports_what_it_finds_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "broken", lambda state: "all is lost" if state.acked else None)
    done = run("--search", "pair")
    assert done.exit_code == 1
    assert "Then all is lost." in done.output
    assert "a is acknowledged." in done.output
