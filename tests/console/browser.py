"""Pages in a real Chromium, and what they did wrong: errors in scripts, and requests to other hosts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

WAIT_MS = 120_000
"""Only says that something hangs."""
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("Chromium is missing. Install it: sudo apt-get install -y chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=WAIT_MS)
        try:
            yield browser
        finally:
            browser.close()


class Viewer:
    """Someone who has opened the address that the console printed."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.address = address
        self.base = address.partition("/?token=")[0]
        self.faults: list[str] = []
        self.context: BrowserContext = browser.new_context(viewport={"width": 1440, "height": 900})
        self.context.set_default_timeout(WAIT_MS)
        self.page = self._watched(self.context.new_page())
        self.page.goto(address)

    def _watched(self, page: Page) -> Page:
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._note_request)
        return page

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text}")

    def _note_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.base).netloc:
            self.faults.append(f"a request to {request.url}")

    def open(self, path: str, landmark: str) -> Page:
        """The page at this path, when this is to be seen."""
        self.page.goto(self.base + path)
        self.page.wait_for_selector(landmark)
        return self.page

    def close(self) -> None:
        self.context.close()
        assert not self.faults, "\n".join(self.faults)


@contextmanager
def viewing(browser: Browser, address: str) -> Iterator[Viewer]:
    viewer = Viewer(browser, address)
    try:
        yield viewer
    except BaseException:
        viewer.context.close()
        raise
    viewer.close()
