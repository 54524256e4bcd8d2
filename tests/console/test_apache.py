"""The same pages against three nodes of Apache Kafka, with what Kafka does not tell marked as such."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, expect

from highwater.client import Admin, Client, NewTopic, Producer
from highwater.client.balance_sight import look
from highwater.client.groups import Groups
from highwater.model import NodeId, TopicPartition
from tests.apache import ApacheKafka
from tests.console.browser import WAIT_MS, viewing
from tests.console.own_console import own_console
from tests.console.readable import check_readable
from tests.console.test_moves import ended, plan_move
from tests.console.traffic import now

expect.set_options(timeout=WAIT_MS)

ORDERS = TopicPartition("console-orders", 0)
PAGES = {
    "/": ".verdict[data-word='healthy']",
    "/replication": "td:has-text('console-orders')",
    "/replication/console-orders": "td:has-text('in sync')",
    "/replication/console-orders/0": ".lane",
    "/topics": "td:has-text('console-orders')",
    "/topics/console-orders/messages": ".records tbody tr",
    "/topics/console-orders/settings": "[data-setting='retention.ms']",
    "/groups": "td:has-text('console-readers')",
    "/groups/console-readers": ".chart",
    "/move": "tr[data-broker='3']",
    "/pipelines": "text=No pipeline is known",
    "/recordings": "input[type=file]",
}
QUICK = {
    "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500", "offsets.topic.num.partitions": "2"
}  # fmt: skip
"""A broker that is killed is fenced after two seconds instead of nine."""


@dataclass(frozen=True)
class Shown:
    """Three nodes of Apache Kafka, and the addresses of two consoles. `mortal` leads the partition of orders and is not
    the active controller."""

    kafka: ApacheKafka
    mortal: int
    address: str
    with_changes: str


@pytest.fixture(scope="module")
def shown(apache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """With records, and with a group that has read some of them."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("apache"), nodes=3, properties=QUICK)
    try:
        kafka.start()
        with Client(kafka.bootstrap) as client:
            active = Admin(client).describe_quorum().topics[0].partitions[0].leader_id
            mortal, *others = sorted((1, 2, 3), key=lambda node: node == active)
            assignment = [[NodeId(each) for each in (mortal, *others)]]
            Admin(client).create_topics(
                [NewTopic("console-orders", assignment=assignment), NewTopic("moved", assignment=[[NodeId(active)]])]
            )
            Producer(client).send(ORDERS, [(now(), b"k", b"from apache", [])] * 7)
            Producer(client).send(TopicPartition("moved", 0), [(now(), None, bytes(1000), [])] * 10)
            Groups(client).commit("console-readers", {ORDERS: 2})
        with own_console(kafka.bootstrap) as address, own_console(kafka.bootstrap, "--allow-changes") as other:
            yield Shown(kafka, mortal, address, other)
    finally:
        kafka.kill()


def test_every_page_shows_apache_kafka_too(browser: Browser, shown: Shown) -> None:
    with viewing(browser, shown.address) as viewer:
        for path, landmark in PAGES.items():
            check_readable(viewer.open(path, landmark), path)


def test_what_apache_kafka_does_not_tell_is_marked(browser: Browser, shown: Shown) -> None:
    with viewing(browser, shown.address) as viewer:
        page = viewer.open("/", PAGES["/"])
        expect(page.locator(".head")).to_contain_text("Apache Kafka")
        expect(page.locator("tr[data-node][data-state='up']")).to_have_count(3)
        expect(page.locator("text=active controller")).to_have_count(1)
        for tile in ("Below min ISR", "Bytes in", "Bytes out", "Latency"):
            expect(page.locator(f"[data-tile='{tile}']")).to_contain_text("Kafka does not tell")
        page = viewer.open("/replication/console-orders/0", ".lane")
        expect(page.locator("[data-fact='high-watermark'] .figure")).to_have_text("7")
        expect(page.locator("[data-fact='isr'] .figure")).to_have_text("3 of 3")
        expect(page.locator(".lane .figures", has_text="end 7")).to_have_count(3)
        for panel in ("Fetches of followers", "What changed here"):
            expect(page.locator(".panel", has_text=panel)).to_contain_text("Kafka does not tell")
        page = viewer.open("/topics/console-orders/messages", ".records tbody tr")
        expect(page.locator(".records tbody tr")).to_have_count(7)
        assert page.get_by_role("button", name="Produce").count() == 0, "it is read-only"
        page = viewer.open("/topics", PAGES["/topics"])
        expect(page.locator("tr", has_text="console-orders").locator("td").last).to_have_text("7 d")
        page = viewer.open("/groups/console-readers", ".chart")
        expect(page.locator("h2", has_text="Lag 5")).to_be_visible()


def test_a_partition_of_apache_kafka_is_moved_from_the_page(browser: Browser, shown: Shown) -> None:
    with viewing(browser, shown.with_changes) as viewer:
        page = viewer.open("/move", PAGES["/move"])
        plan_move(page, "moved", str(shown.mortal))
        page.get_by_role("button", name="Start these moves").click()
        expect(ended(page, "moved-0")).to_contain_text("finished")
    with Client(shown.kafka.bootstrap) as client:
        assert look(client).partitions[TopicPartition("moved", 0)].replicas == (shown.mortal,)


def test_a_killed_node_of_apache_kafka_turns_red_and_leaves_the_isr_and_comes_back(
    browser: Browser, shown: Shown
) -> None:
    """The last test of this file: the node that comes back leads nothing."""
    killed = shown.mortal
    with viewing(browser, shown.address) as viewer, viewing(browser, shown.address) as second:
        lanes = viewer.open("/replication/console-orders/0", f"[data-node='{killed}'][data-role='leader']")
        overview = second.open("/", PAGES["/"])
        shown.kafka.kill_node(killed)
        expect(overview.locator(f"tr[data-node='{killed}'][data-state='down']")).to_be_visible()
        expect(overview.locator(".verdict")).not_to_have_attribute("data-word", "healthy")
        gone = overview.locator(".timeline li", has_text=f"broker {killed} is gone")
        expect(gone).to_contain_text("Kafka does not tell")
        expect(overview.locator(".timeline")).to_contain_text(f"before by {killed}")
        lost = lanes.locator(f".lane[data-node='{killed}'][data-state='down']")
        expect(lost.locator(".why")).to_have_text("Kafka does not tell")
        expect(lanes.locator("[data-fact='isr'] .figure")).to_have_text("2 of 3")
        expect(lanes.locator("[data-fact='leader'] .figure")).to_have_text(re.compile(f"^[^{killed}]$"))
        expect(lanes.locator("[data-fact='leader']")).to_contain_text("epoch 1")

        shown.kafka.start_node(killed)
        expect(lanes.locator(f".lane[data-node='{killed}'][data-state='in']")).to_be_visible()
        expect(lanes.locator("[data-fact='isr'] .figure")).to_have_text("3 of 3")
        expect(overview.locator(f"tr[data-node='{killed}'][data-state='up']")).to_be_visible()
        expect(overview.locator(".verdict")).to_have_attribute("data-word", "healthy")
