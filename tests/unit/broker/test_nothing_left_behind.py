"""What a request was made of goes when it is answered. What is left for Python's collector of garbage is kept until
tens of thousands of objects have gathered, answers and all, and then the loop stands still while they are looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.net.registry import Role

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("what", [*(role.value for role in Role), "look-ups"])
def test_no_request_of_any_kind_outlives_its_answer(what: str) -> None:
    command = [sys.executable, "-m", "tests.unit.broker.left_behind", what]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}
