"""The console that `highwater up` starts: after ready, in a process of its own, and gone when `up` is."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect

from highwater.client import Admin, Client, NewTopic
from tests.apache import free_ports
from tests.cluster.stage import WAIT_SECONDS, wait_until
from tests.console.browser import WAIT_MS, viewing
from tests.console.own_console import own_console

expect.set_options(timeout=WAIT_MS)


@contextmanager
def up(directory: Path, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "highwater", "up", "--brokers", "1", "--port", str(free_ports(1)[0])]
    with (directory / "errors").open("w") as errors:
        process = subprocess.Popen(
            [*command, "--data-dir", str(directory / "data"), *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | environment,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def is_served(address: str) -> bool:
    try:
        with urllib.request.urlopen(address.partition("?")[0] + "static/app.css", timeout=WAIT_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_its_address_follows_ready_on_a_line_of_its_own_and_it_ends_with_up(tmp_path: Path) -> None:
    with up(tmp_path, "--console-port", "0") as process:
        assert line_of(process).startswith("ready bootstrap=")
        word, _, address = line_of(process).partition(" ")
        assert word == "console" and "/?token=" in address
        assert is_served(address), "a browser that comes at once waits until the console is there"
        with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(address, timeout=WAIT_SECONDS):
            """The token is in this address, and in no log."""
        assert address.partition("=")[2] not in (tmp_path / "data/console.log").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0
        assert not is_served(address)


def test_it_lists_the_recordings_of_the_folder_that_up_names(tmp_path: Path) -> None:
    (tmp_path / "kept.jsonl").write_text("{}\n")
    with up(tmp_path, "--console-port", "0", "--recordings", str(tmp_path)) as process:
        line_of(process)
        address = line_of(process).partition(" ")[2]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        browser.open(address, timeout=WAIT_SECONDS).close()
        with browser.open(address.partition("?")[0] + "api/recordings", timeout=WAIT_SECONDS) as answer:
            listed = json.load(answer)
    assert [each["name"] for each in listed["recordings"]] == ["kept.jsonl"]


def test_it_ends_when_up_is_killed(tmp_path: Path) -> None:
    with up(tmp_path, "--console-port", "0") as process:
        line_of(process)
        address = line_of(process).partition(" ")[2]
        assert is_served(address)
        process.kill()
        wait_until(lambda: not is_served(address), "the console ends")


def test_an_open_page_finds_a_cluster_again_that_came_later_or_was_started_on_other_ports(
    browser: Browser, tmp_path: Path
) -> None:
    """By nodes.json wherever it is, and by its servers if it comes back there. Its /status is elsewhere each time."""
    first, other = free_ports(2)
    server = f"127.0.0.1:{first}"
    with up(tmp_path, "--console-port", "off", "--port", str(first)) as process:
        line_of(process)
        with Client(server) as client:
            Admin(client).create_topics([NewTopic("kept", 1, 1)])
    with (
        own_console(None, "--data-dir", str(tmp_path / "data")) as by_directory,
        own_console(server) as by_server,
        viewing(browser, by_directory) as one,
        viewing(browser, by_server) as two,
    ):
        followed = one.open("/", ".verdict[data-word='unreachable']")
        known = two.open("/", ".verdict[data-word='unreachable']")
        for port in (first, other, first):
            with up(tmp_path, "--console-port", "off", "--port", str(port)) as process:
                line_of(process)
                for page in (followed, known) if port == first else (followed,):
                    expect(page.locator(".verdict")).to_have_attribute("data-word", "healthy")
                    expect(page.locator("tr[data-node='1'][data-state='up']")).to_contain_text(f"127.0.0.1:{port}")
                    expect(page.locator(".banner")).to_have_count(0)
                    expect(page.locator("[data-tile='Partitions'] .figure")).to_have_text("1")
            expect(followed.locator(".verdict")).to_have_attribute("data-word", "unreachable")
            expect(known.locator(".verdict")).to_have_attribute("data-word", "unreachable")


def test_a_port_that_was_asked_for_and_is_taken_ends_up_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with up(tmp_path, "--console-port", str(port)) as process:
            assert process.wait(WAIT_SECONDS) == 1
    assert f"port {port} is taken" in (tmp_path / "errors").read_text()
    assert not (tmp_path / "data").exists()


def test_a_console_that_cannot_start_is_one_line_and_the_cluster_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['starlette'] = None\n")
    # The variable asks for no certain port here: an empty one counts as none.
    with up(tmp_path, HIGHWATER_CONSOLE_PORT="", PYTHONPATH=str(tmp_path)) as process:
        assert line_of(process).startswith("ready bootstrap=")
        errors = tmp_path / "errors"
        wait_until(lambda: errors.read_text() != "", "it says so")
        assert errors.read_text() == "no console: the package starlette is not installed\n"
        assert process.poll() is None
