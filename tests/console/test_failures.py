"""What the pages show when a node dies and comes back, and how little the brokers notice of many viewers."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect

from highwater.client import Producer
from highwater.model import TopicPartition
from tests.cluster.stage import Stage, wait_until
from tests.console.browser import WAIT_MS, Viewer, viewing
from tests.console.conftest import Watched
from tests.console.own_console import own_console

expect.set_options(timeout=WAIT_MS)

NOW = time.time_ns() // 1_000_000
"""Older records would be deleted by retention."""


LANES_IN_A_SECOND = 5


@dataclass(frozen=True)
class LaneEvent:
    """What the page of a partition got at one moment."""

    at_ms: float
    lanes: dict[str, Any]


@contextmanager
def lane_events(address: str, topic: str) -> Iterator[list[LaneEvent]]:
    """What the page of partition 0 gets, as it comes."""
    parts = urlsplit(address)
    headers = {"Cookie": f"highwater_console_{parts.port}={parts.query.partition('=')[2]}"}
    over = threading.Event()
    events: list[LaneEvent] = []

    def watch() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=60)
        connection.request("GET", f"/api/events?view=lanes&topic={topic}&partition=0", headers=headers)
        answer = connection.getresponse()
        while not over.is_set():
            line = answer.readline()
            if line.startswith(b"data:"):
                events.append(LaneEvent(time.time() * 1000, json.loads(line.removeprefix(b"data:"))))
        connection.close()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield events
    finally:
        over.set()
        thread.join(60)


def elected_at_ms(page: Page, partition: str, epoch: int) -> float:
    """When the controller decided it, as the timeline has it."""
    row = page.locator(".timeline li", has_text=f"{partition} elected").filter(has_text=f"for epoch {epoch} ").first
    when = row.locator("time").get_attribute("datetime")
    assert when is not None
    return datetime.fromisoformat(when).timestamp() * 1000


def test_a_killed_broker_turns_red_and_leaves_the_isr_and_comes_back(
    browser: Browser, watched: Watched, viewer: Viewer
) -> None:
    stage = watched.stage
    killed = next(node for node in stage.brokers if node != stage.active_controller())
    others = [node for node in stage.brokers if node != killed]
    stage.create_topic_on("orders", [killed, *others])
    with stage.client() as client:
        Producer(client).send(TopicPartition("orders", 0), [(NOW, None, b"v", [])] * 10)
    lanes = viewer.open("/replication/orders/0", f"[data-node='{killed}'][data-role='leader'][data-state='in']")
    with viewing(browser, watched.address) as second, viewing(browser, watched.address) as third:
        overview = second.open("/", f"tr[data-node='{killed}'][data-state='up']")
        faults = third.open("/faults", f".node-card[data-node='{killed}']")
        with lane_events(watched.address, "orders") as events:
            faults.locator(f".node-card[data-node='{killed}']").get_by_role("button", name="Kill").click()
            leader = lanes.locator("[data-fact='leader'] .figure")
            expect(leader).to_have_text(re.compile("|".join(map(str, others))))
            heir = int(leader.inner_text())
            wait_until(lambda: any(each.lanes.get("leader") == heir for each in events), "the page got it")

        expect(faults.locator(".banner[data-state='good']")).to_contain_text(f"node {killed} is dead")
        expect(overview.locator(f"tr[data-node='{killed}'][data-state='down']")).to_be_visible()
        expect(overview.locator(".verdict[data-word='degraded']")).to_be_visible()
        expect(overview.locator(".timeline")).to_contain_text(f"broker {killed} fenced")
        elected = elected_at_ms(overview, "orders-0", 1)
        late = [each for each in events if each.at_ms > elected and each.lanes.get("leader") != heir]
        assert len(late) <= LANES_IN_A_SECOND, "the page is asked for its lanes five times a second"

        expect(lanes.locator(f".lane[data-node='{killed}'][data-state='down']")).to_be_visible()
        expect(lanes.locator("[data-fact='isr'] .figure")).to_have_text("2 of 3")
        expect(lanes.locator(f".lane[data-node='{killed}'] .why")).to_contain_text(f"broker {killed}")

        faults.locator(f".node-card[data-node='{killed}']").get_by_role("button", name="Start").click()
        expect(lanes.locator(f".lane[data-node='{killed}'][data-state='in']")).to_be_visible()
        expect(overview.locator(".verdict[data-word='healthy']")).to_be_visible()
        grid = viewer.open("/replication/orders", ".cell[data-state='good']")
        grid.get_by_role("button", name="Elect preferred leaders").click()
        expect(grid.locator(".cell")).to_contain_text(f"led by {killed}")
    stage.down.discard(killed)


def test_nodes_are_paused_and_links_are_cut_and_slowed_and_healed_from_the_page(
    viewer: Viewer, watched: Watched
) -> None:
    stage = watched.stage
    paused = next(node for node in stage.brokers if node != stage.active_controller())
    page = viewer.open("/faults", f".node-card[data-node='{paused}'][data-state='up']")
    told = page.locator(".banner[data-state='good']")
    card = page.locator(f".node-card[data-node='{paused}']")
    card.get_by_role("button", name="Pause").click()
    expect(told).to_contain_text(f"node {paused} is paused")
    expect(page.locator("pre.command")).to_contain_text(f"highwater pause {paused} --data-dir")
    expect(page.locator(f".node-card[data-node='{paused}'][data-state='down']")).to_be_visible()
    card.get_by_role("button", name="Resume").click()
    expect(told).to_contain_text(f"node {paused} goes on")
    expect(page.locator(f".node-card[data-node='{paused}'][data-state='up']")).to_be_visible()

    page.get_by_label("One node").select_option("1")
    page.get_by_label("The other node").select_option("2")
    page.get_by_label("Delay in milliseconds").fill("40")
    page.get_by_role("button", name="Slow").click()
    expect(told).to_contain_text("40 ms")
    page.get_by_label("One way only").check()
    page.get_by_role("button", name="Cut").click()
    expect(told).to_contain_text("the link from node 1 to node 2 is cut")
    expect(page.locator("pre.command")).to_contain_text("highwater cut 1 2 --one-way --data-dir")
    page.get_by_role("button", name="Heal all").click()
    expect(told).to_have_text("all links are healed")


def test_however_many_watch_the_lanes_of_a_partition_are_asked_for_five_times_a_second(watched: Watched) -> None:
    watched.stage.create_topic("counted", 1, 3)
    with ExitStack() as stack:
        begun = time.time() * 1000
        all_events = [stack.enter_context(lane_events(watched.address, "counted")) for _ in range(10)]
        wait_until(lambda: min(len(each) for each in all_events) >= 8, "all ten see the lanes")
        seen = max(map(len, all_events))
        elapsed = (time.time() * 1000 - begun) / 1000
        # Ages change with each question, so that each question is one event for each viewer.
        assert seen <= elapsed * LANES_IN_A_SECOND + 2


def posted(address: str, path: str, body: dict[str, object]) -> tuple[int, str]:
    """A change, as the page sends it."""
    parts = urlsplit(address)
    cookie = {"Cookie": f"highwater_console_{parts.port}={parts.query.partition('=')[2]}"}
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=60)
    try:
        connection.request("GET", "/api/session", headers=cookie)
        session = json.loads(connection.getresponse().read())
        connection.request("POST", path, json.dumps(body), {**cookie, "X-Console-Token": session["token"]})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["error"]
    finally:
        connection.close()


def test_a_console_without_permission_refuses_every_change(watched: Watched) -> None:
    with own_console(watched.stage.bootstrap) as address:
        for path in (
            "/api/topics/t/records",
            "/api/topics/t/settings",
            "/api/topics/t/elect",
            "/api/topics/t/replay",
            "/api/group/reset?group=g",
            *(f"/api/move/{verb}" for verb in ("start", "cancel", "elect", "stop", "unthrottle")),
        ):
            status, reason = posted(address, path, {"value": "v", "rows": []})
            assert status == 403 and "--allow-changes" in reason
        status, reason = posted(address, "/api/fault", {"verb": "kill", "nodes": [1]})
        assert status == 403 and "--allow-faults" in reason
    assert set(is_running(watched.stage)) == set(watched.stage.brokers)


def is_running(stage: Stage) -> list[int]:
    return [status["node"] for status in stage.statuses()]
