"""What `highwater node` makes of its file, and how it says why it stops."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.broker.lifecycle import NotRegistered
from highwater.cli.node import exit_code, read_config
from highwater.config import BROKER_RACK, ConfigError
from highwater.node import NotStarted
from tests.unit.broker.living import PROPERTIES


def test_the_file_is_read_in_the_encoding_of_javas_properties_whatever_the_locale_is(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    lines = [f"{key}={value}" for key, value in PROPERTIES.items()]
    path.write_bytes("\n".join([*lines, "# caf\u00e9", "broker.rack=\u00e9tage"]).encode("iso-8859-1"))
    assert read_config(path, ()).get(BROKER_RACK) == "\u00e9tage"


def test_overrides_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.properties"
    path.write_text("\n".join(f"{key}={value}" for key, value in {**PROPERTIES, "broker.rack": "file"}.items()))
    assert read_config(path, ()).get(BROKER_RACK) == "file"
    monkeypatch.setenv("KAFKA_BROKER_RACK", "environment")
    assert read_config(path, ()).get(BROKER_RACK) == "environment"
    assert read_config(path, ("broker.rack=flag",)).get(BROKER_RACK) == "flag"


@pytest.mark.parametrize(
    ("why", "traced"),
    [
        (ConfigError("a setting"), False),
        (NotStarted("too slow"), False),
        (NotRegistered("no controller"), False),
        (OSError(errno.EADDRINUSE, "address already in use"), False),
        (OSError(errno.EIO, "the disk"), True),
        (ValueError("a bug"), True),
    ],
)
def test_a_reason_that_the_operator_can_mend_is_told_without_a_traceback(
    why: BaseException, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        assert exit_code(why) == 1
    assert str(why) in caplog.text
    assert bool(caplog.records[-1].exc_info) is traced


def test_a_node_that_was_told_to_stop_ends_well() -> None:
    assert exit_code(None) == 0


def test_a_directory_that_is_not_there_is_named_with_what_makes_it(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    missing = tmp_path / "missing"
    config.write_text("\n".join(f"{key}={value}" for key, value in {**PROPERTIES, "log.dirs": str(missing)}.items()))
    command = [sys.executable, "-m", "highwater", "node", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"the node stops: {missing} does not exist: run 'highwater storage format' first" in done.stderr
    assert "Traceback" not in done.stderr
