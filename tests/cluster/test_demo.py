"""`highwater demo`, which `make run` runs: a newcomer's first two minutes, and what its exit code promises."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

DEMO = [sys.executable, "-m", "highwater", "demo"]
VERDICT = re.compile(r"verdict acked=(\d+) delivered=(\d+) lost=0 duplicated=0")


@pytest.mark.slow
def test_a_leader_dies_and_comes_back_and_nothing_is_lost() -> None:
    ran = subprocess.run([*DEMO, "--seconds", "6"], capture_output=True, text=True, timeout=150)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for told in ("3 brokers ready", "killed with SIGKILL", "takes writes again", "started again", "is in sync again"):
        assert told in ran.stdout
    found = VERDICT.fullmatch(ran.stdout.splitlines()[-1])
    assert found is not None and found[1] == found[2] != "0", ran.stdout


@pytest.mark.slow
def test_a_run_that_is_ended_before_the_kill_proves_nothing_and_says_so() -> None:
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        while "acked" not in demo.stdout.readline():
            pass
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
    assert demo.returncode == 1
    assert "No leader was killed" in rest and VERDICT.fullmatch(rest.splitlines()[-1])
