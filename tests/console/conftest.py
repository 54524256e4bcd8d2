"""One browser and one cluster for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser

from tests.cluster.stage import Stage, staged
from tests.console.browser import Viewer, chromium, viewing


@dataclass(frozen=True)
class Watched:
    """A cluster, and the address of its console."""

    stage: Stage
    address: str


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    options = ("--console-port", "0", "--allow-changes", "--allow-faults")
    with staged(tmp_path_factory.mktemp("console") / "data", 3, options=options) as stage:
        word, _, address = stage.next_line().partition(" ")
        assert word == "console"
        yield Watched(stage, address)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def viewer(browser: Browser, watched: Watched) -> Iterator[Viewer]:
    """Fails the test if a page reported an error, or asked another host for anything."""
    with viewing(browser, watched.address) as found:
        yield found
