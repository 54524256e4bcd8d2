"""What `highwater node` makes of its file, and how it says why it stops."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from highwater.broker.lifecycle import NotRegistered
from highwater.cli.node import RECOVERS_SECONDS, NewsSender, exit_code
from highwater.cli.origins import Origins
from highwater.cli.server_properties import read_config
from highwater.config import BROKER_RACK, ConfigError
from highwater.node import NotStarted
from tests.unit.broker.living import PROPERTIES


def test_the_file_is_read_in_the_encoding_of_javas_properties_in_every_locale(tmp_path: Path) -> None:
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
    ("file", "variable", "overrides", "complaint"),
    [
        ("soon", "", (), "{path}: Invalid value soon for configuration log.retention.ms: Not a number of type LONG"),
        (
            "1",
            "soon",
            (),
            "Invalid value soon for configuration log.retention.ms: Not a number of type LONG "
            "(log.retention.ms is set by the environment variable KAFKA_LOG_RETENTION_MS)",
        ),
        (
            "1",
            "2",
            ("log.retention.ms=soon",),
            "Invalid value soon for configuration log.retention.ms: Not a number of type LONG "
            "(log.retention.ms is set by --override log.retention.ms=soon)",
        ),
        ("1", "2", ("soon",), "--override takes key=value, not 'soon'"),
        ("1", "2", ("=soon",), "--override takes key=value, not '=soon'"),
    ],
)
def test_a_wrong_setting_is_reported_with_the_place_that_it_comes_from(
    tmp_path: Path, file: str, variable: str, overrides: tuple[str, ...], complaint: str
) -> None:
    path = tmp_path / "server.properties"
    path.write_text("\n".join(f"{key}={value}" for key, value in {**PROPERTIES, "log.retention.ms": file}.items()))
    environment = {"KAFKA_LOG_RETENTION_MS": variable} if variable else {}
    with pytest.raises(ConfigError) as wrong:
        read_config(path, overrides, environment)
    assert str(wrong.value) == complaint.format(path=path)


def test_node_and_storage_do_not_blame_the_file_for_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("\n".join(f"{key}={value}" for key, value in PROPERTIES.items()))
    for command in (["node", "--config"], ["storage", "info", "-c"]):
        done = subprocess.run(
            [sys.executable, "-m", "highwater", *command, str(path)],
            env={**os.environ, "KAFKA_LOG_RETENTION_MS": "soon"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1
        assert "(log.retention.ms is set by the environment variable KAFKA_LOG_RETENTION_MS)" in done.stderr
        assert str(path) not in done.stderr


def test_a_setting_that_is_nearly_one_is_logged_with_it(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    lines = {**PROPERTIES, "log.dirs": str(tmp_path / "missing"), "log.retenton.ms": "1"}
    path.write_text("\n".join(f"{key}={value}" for key, value in lines.items()))
    command = [sys.executable, "-m", "highwater", "node", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "unknown setting log.retenton.ms is ignored; did you mean log.retention.ms?" in done.stderr


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
def test_a_reason_that_the_operator_can_mend_is_reported_without_a_traceback(
    why: BaseException, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        assert exit_code(why) == 1
    assert str(why) in caplog.text
    assert bool(caplog.records[-1].exc_info) is traced


def test_the_error_for_a_taken_address_names_the_process_that_has_it(caplog: pytest.LogCaptureFixture) -> None:
    async def listen(port: int) -> None:
        await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", port)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(OSError) as failed:
            asyncio.run(listen(taken.getsockname()[1]))
        assert exit_code(failed.value) == 1
    complaint = caplog.records[-1].getMessage()
    assert f"address already in use by pid {os.getpid()} (" in complaint
    assert complaint.endswith(": end that process, or give another port in listeners")


def test_a_node_that_was_asked_to_stop_ends_well() -> None:
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


def test_a_setting_at_the_end_of_a_sentence_is_reported_with_its_origin() -> None:
    origins = Origins()
    origins.note(["log.roll.ms"], "--set")
    assert origins.of("it must not be more than log.roll.ms.") == ["log.roll.ms is set by --set"]


FORKED = """
import os, socket, sys
from pathlib import Path
from highwater.cli.node import fork_node
from highwater.cli.steering import Steered
here = Path(sys.argv[1])
steered = Steered(socket.socketpair()[0], {}, ())
pid, _ = fork_node(here / "none", here / "pid", here / "node.log", here / ".lock", lambda: None, steered)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_forked_node_does_not_begin_if_its_up_has_ended_before_it_could_look(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    done = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "1\n", done.stderr
    assert "has ended before this node began: it does not begin" in (tmp_path / "node.log").read_text()
    assert not (tmp_path / "pid").exists()


def test_a_node_that_recovers_writes_a_byte_a_second_at_most() -> None:
    """A pipe that nobody reads would be full one day, and the node would stand still."""
    read_end, write_end = os.pipe()
    sender = NewsSender(write_end)
    began = time.monotonic()
    for _ in range(1000):
        sender.recovers()
    seconds = time.monotonic() - began
    os.close(write_end)
    assert 1 <= len(os.read(read_end, 2000)) <= 1 + seconds / RECOVERS_SECONDS
    os.close(read_end)
