"""Makes the pictures of the web console in docs/: `.venv/bin/python scripts/console_pictures.py`.

It starts three brokers with their console, lets records flow and a group fall behind, opens the pages in Chromium, and
kills the leader of a partition while its lanes are filmed. With a folder as argument, every page is also pictured
there, in light and dark, wide and narrow, to be looked at.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from highwater.client import Admin, Client, Consumer, NewTopic, Producer
from highwater.client.groups import Groups
from highwater.errors import KafkaError
from highwater.model import TopicPartition
from highwater.pipeline.job import JobStatus
from highwater.pipeline.query import Report

DOCS = Path(__file__).parents[1] / "docs"
RECORDED = "leader-killed"
"""The experiment of the lab whose recording is pictured."""
PAGES = {
    "health": ("/", ".verdict"),
    "replication": ("/replication", "td"),
    "grid": ("/replication/orders", ".cell"),
    "lanes": ("/replication/orders/0", ".lane"),
    "topics": ("/topics", "td"),
    "messages": ("/topics/orders/messages?limit=12", ".records tbody tr"),
    "settings": ("/topics/orders/settings", "[data-setting]"),
    "groups": ("/groups", "td"),
    "group": ("/groups/billing", ".chart"),
    "faults": ("/faults", ".node-card"),
    "move": ("/move", "tr[data-broker]"),
    "pipelines": ("/pipelines", "[data-pipeline]"),
    "recordings": ("/recordings", "td"),
    "recording": (f"/recordings/{RECORDED}.jsonl?frame=2", ".narration"),
    "missing-topic": ("/topics/oders/messages", ".banner"),
    "missing-partition": ("/replication/orders/99", ".banner"),
    "missing-page": ("/nowhere", ".failed"),
}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FRAMES, FRAME_SECONDS = 36, 0.4
WAIT_MS = 60_000


class Feed:
    """Orders that arrive all the time, and a group that reads them more slowly."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Feed:
        with Client(self._bootstrap) as client:
            Admin(client).create_topics(
                [
                    NewTopic("orders", 6, 3, configs={"retention.ms": "86400000", "min.insync.replicas": "2"}),
                    NewTopic("payments", 3, 3),
                ]
            )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with Client(self._bootstrap) as client:
            number, reader = 0, Consumer(client)
            reader.assign({TopicPartition("orders", each): 0 for each in range(6)})
            while not self._over.is_set():
                number += 1
                try:
                    self._round(client, number)
                    reader.poll(0.01)
                except KafkaError:
                    self._over.wait(0.2)  # a leader is elected
                self._over.wait(0.05)

    def _round(self, client: Client, number: int) -> None:
        now = time.time_ns() // 1_000_000
        for partition in range(6):
            order = {"order": 9007199254740993 + number * 6 + partition, "customer": f"c-{number % 40}", "total": 12.5}
            key = str(order["customer"]).encode()
            record = (now, key, json.dumps(order).encode(), [("source", b"web")])
            Producer(client).send(TopicPartition("orders", partition), [record])
        if number % 20 == 1:
            behind = {TopicPartition("orders", each): max(number - 20 - each * 7, 0) for each in range(6)}
            Groups(client).commit("billing", behind)


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, str]]:
    """The bootstrap servers, and the address of the console. Recordings and pipelines lie beside the data."""
    command = [sys.executable, "-m", "highwater", "up", "--port", "0", "--console-port", "0"]
    command += ["--data-dir", str(folder / "data"), "--recordings", str(folder / "recordings")]
    command += ["--allow-changes", "--allow-faults"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        ready, console = up.stdout.readline(), up.stdout.readline()
        try:
            yield dict(word.partition("=")[::2] for word in ready.split())["bootstrap"], console.split()[1]
        finally:
            up.terminate()


def keep_recording_and_pipeline(folder: Path) -> None:
    """A recording of a real experiment, and the status that a pipeline leaves beside its checkpoint."""
    for each in ("recordings", "checkpoints"):
        (folder / each).mkdir()
    kept = folder / "recordings" / f"{RECORDED}.jsonl"
    run = [sys.executable, "-m", "highwater", "lab", "run", RECORDED, "--record", str(kept)]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    status = JobStatus("orders")
    status.took(Report(batch_id=41, records=1500, rows=1488, seconds=0.84, lag=120, query_id="q", files=2, size=90_000))
    (folder / "checkpoints" / "orders.status.json").write_text(json.dumps(status.to_json()))


@contextmanager
def opened(browser: Browser, address: str, width: int, scheme: str) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": width, "height": 820}, color_scheme="dark" if scheme == "dark" else "light"
    )
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(address)
    yield page
    context.close()


def shot(page: Page, base: str, name: str, file: Path, full: bool = False) -> None:
    path, landmark = PAGES[name]
    page.goto(base + path)
    page.wait_for_selector(landmark)
    page.wait_for_timeout(6000 if name in ("health", "group") else 2000)  # until the curves have a few points
    page.screenshot(path=file, full_page=full)


def film(page: Page, base: str, folder: Path) -> list[bytes]:
    """The lanes while their leader is killed and started again."""
    page.goto(f"{base}/replication/orders/0")
    page.wait_for_selector(".lane")
    leader = page.locator("[data-fact='leader'] .figure").inner_text()
    frames = []
    for number in range(FRAMES):
        if number == 6:
            subprocess.run([sys.executable, "-m", "highwater", "kill", leader, "--data-dir", str(folder)], check=True)
        if number == 18:
            subprocess.run([sys.executable, "-m", "highwater", "start", leader, "--data-dir", str(folder)], check=True)
        frames.append(page.screenshot(clip={"x": 0, "y": 50, "width": 1000, "height": 480}))
        page.wait_for_timeout(FRAME_SECONDS * 1000)
    return frames


def animated(frames: list[bytes]) -> bytes:
    """An animated PNG of PNGs of one size."""
    chunks = [list(_chunks(each)) for each in frames]
    header = next(data for kind, data in chunks[0] if kind == b"IHDR")
    width, height = struct.unpack(">II", header[:8])
    found = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"acTL", struct.pack(">II", len(frames), 0))
    sequence = 0
    for number, parts in enumerate(chunks):
        control = struct.pack(">IIIIIHHBB", sequence, width, height, 0, 0, int(FRAME_SECONDS * 1000), 1000, 0, 0)
        found += _chunk(b"fcTL", control)
        sequence += 1
        data = b"".join(data for kind, data in parts if kind == b"IDAT")
        if number == 0:
            found += _chunk(b"IDAT", data)
        else:
            found += _chunk(b"fdAT", struct.pack(">I", sequence) + data)
            sequence += 1
    return found + _chunk(b"IEND", b"")


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main(folder: Path | None) -> None:
    path = shutil.which("chromium")
    if path is None:
        sys.exit("Chromium is missing: sudo apt-get install -y chromium")
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        keep_recording_and_pipeline(Path(home))
        with cluster(Path(home)) as (bootstrap, address), Feed(bootstrap):
            base = address.partition("/?")[0]
            if folder is not None:
                for scheme, width in (("light", 1440), ("light", 390), ("dark", 1440), ("dark", 390)):
                    with opened(browser, address, width, scheme) as page:
                        for name in PAGES:
                            shot(page, base, name, folder / f"{name}-{scheme}-{width}.png", full=True)
                return
            with opened(browser, address, 1280, "light") as page:
                for name in ("health", "messages", "group"):
                    shot(page, base, name, DOCS / f"console-{name}.png")
            with opened(browser, address, 1000, "dark") as page:
                (DOCS / "console-lanes.png").write_bytes(animated(film(page, base, Path(home) / "data")))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
