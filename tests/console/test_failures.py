"""What the pages show when a node dies and comes back, and how little the brokers notice of many viewers."""

from __future__ import annotations

import http.client
import json
import threading
import time
from urllib.parse import urlsplit

from playwright.sync_api import Browser, expect

from highwater.client import Admin, Client, NewTopic, Producer
from highwater.model import TopicPartition
from tests.apache import ApacheKafka
from tests.cluster.stage import Stage, wait_until
from tests.console.browser import WAIT_MS, Viewer, viewing
from tests.console.conftest import Watched
from tests.console.own_console import own_console

expect.set_options(timeout=WAIT_MS)

NOW = time.time_ns() // 1_000_000
"""Older records would be deleted by retention."""


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
        faults.locator(f".node-card[data-node='{killed}']").get_by_role("button", name="Kill").click()

        expect(faults.locator(".banner[data-state='good']")).to_contain_text(f"node {killed} is dead")
        expect(overview.locator(f"tr[data-node='{killed}'][data-state='down']")).to_be_visible()
        expect(overview.locator(".verdict[data-word='degraded']")).to_be_visible()
        expect(overview.locator(".timeline")).to_contain_text(f"broker {killed} fenced")
        expect(lanes.locator(f".lane[data-node='{killed}'][data-state='down']")).to_be_visible()
        expect(lanes.locator("[data-fact='isr'] .figure")).to_have_text("2 of 3")
        leader = lanes.locator("[data-fact='leader'] .figure")
        expect(leader).not_to_have_text(str(killed))
        wait_until(lambda: int(leader.inner_text()) in others, "the page shows the new leader")
        expect(lanes.locator(f".lane[data-node='{killed}'] .why")).to_contain_text(f"broker {killed}")

        faults.locator(f".node-card[data-node='{killed}']").get_by_role("button", name="Start").click()
        expect(lanes.locator(f".lane[data-node='{killed}'][data-state='in']")).to_be_visible()
        expect(overview.locator(".verdict[data-word='healthy']")).to_be_visible()
        grid = viewer.open("/replication/orders", ".cell[data-state='good']")
        grid.get_by_role("button", name="Elect preferred leaders").click()
        expect(grid.locator(".cell")).to_contain_text(f"led by {killed}")
    stage.down.discard(killed)


def test_however_many_watch_the_lanes_of_a_partition_are_asked_for_five_times_a_second(watched: Watched) -> None:
    stage = watched.stage
    address = urlsplit(watched.address)
    token = address.query.partition("=")[2]
    headers = {"Cookie": f"highwater_console_{address.port}={token}"}
    stopped = threading.Event()
    events: list[list[float]] = [[] for _ in range(10)]

    def watch(at: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=60)
        connection.request("GET", "/api/events?view=lanes&topic=counted&partition=0", headers=headers)
        answer = connection.getresponse()
        while not stopped.is_set():
            if answer.readline().startswith(b"data:"):
                events[at].append(time.monotonic())
        connection.close()

    stage.create_topic("counted", 1, 3)
    begun = time.monotonic()
    threads = [threading.Thread(target=watch, args=(each,), daemon=True) for each in range(10)]
    for thread in threads:
        thread.start()
    wait_until(lambda: min(len(each) for each in events) >= 8, "all ten see the lanes")
    seen = [len(each) for each in events]
    elapsed = time.monotonic() - begun
    stopped.set()
    # Ages change with each question, so that each question is one event for each viewer.
    assert max(seen) <= elapsed / 0.2 + 2
    for thread in threads:
        thread.join(60)


def test_the_same_pages_show_apache_kafka_and_mark_what_it_does_not_tell(
    browser: Browser, apache_kafka: ApacheKafka
) -> None:

    with Client(apache_kafka.bootstrap) as client:
        Admin(client).create_topics([NewTopic("console-orders", 2, 1)])
        Producer(client).send(TopicPartition("console-orders", 0), [(NOW, b"k", b"from apache", [])] * 7)
    with own_console(apache_kafka.bootstrap) as address, viewing(browser, address) as viewer:
        page = viewer.open("/", ".verdict[data-word='healthy']")
        expect(page.locator(".head")).to_contain_text("Apache Kafka")
        expect(page.locator("[data-tile='Below min ISR']")).to_contain_text("Kafka does not tell")
        page = viewer.open("/replication/console-orders/0", ".lane")
        expect(page.locator("[data-fact='high-watermark'] .figure")).to_have_text("7")
        expect(page.locator(".lane .figures")).to_contain_text("end 7")
        expect(page.locator(".panel", has_text="Fetches of followers")).to_contain_text("Kafka does not tell")
        page = viewer.open("/topics/console-orders/messages", ".records tbody tr")
        expect(page.locator(".records tbody tr")).to_have_count(7)
        assert page.get_by_role("button", name="Produce").count() == 0, "it is read-only"
        page = viewer.open("/topics/console-orders/settings", "[data-setting='retention.ms']")
        viewer.open("/groups", "h1")
        page = viewer.open("/move", "tr[data-broker]")
        page.get_by_role("button", name="Plan a balance").click()
        expect(page.locator(".banner[data-state='good']")).to_contain_text("nothing to move")


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
