"""The pages of the console in Chromium, on a live cluster."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer as ConfluentProducer
from playwright.sync_api import Browser, Page, expect

from highwater.client import Client, Consumer, Producer
from highwater.client.groups import Groups
from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.kernel import Record
from highwater.model import TopicPartition
from tests.apache import free_ports
from tests.cluster.stage import wait_until
from tests.console.browser import WAIT_MS, Viewer, viewing
from tests.console.conftest import Watched
from tests.console.own_console import own_console
from tests.console.readable import FAINT, NAMELESS

expect.set_options(timeout=WAIT_MS)

EXACT = '{"id":9007199254740993,"total":12.50}'
PAGES = {
    "/": ".verdict",
    "/replication": "text=How does replication stand?",
    "/replication/orders": ".cell",
    "/replication/orders/0": ".lane",
    "/topics": "td:has-text('orders')",
    "/topics/orders/messages": ".records tbody tr",
    "/topics/orders/settings": "[data-setting='retention.ms']",
    "/groups": "td:has-text('billing')",
    "/groups/billing": ".chart",
    "/faults": ".node-card",
    "/move": "tr[data-broker]",
    "/pipelines": "text=No pipeline is known",
    "/recordings": "input[type=file]",
}


def now() -> int:
    """Older records would be deleted by retention after half a minute."""
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module", autouse=True)
def orders(watched: Watched) -> None:
    """Records in each partition, and a group that has read some of them."""
    watched.stage.create_topic("orders", 3, 3)
    with watched.stage.client() as client:
        producer = Producer(client)
        for partition in range(3):
            producer.send(TopicPartition("orders", partition), [(now(), b"key", EXACT.encode(), [])] * 20)
        Groups(client).commit("billing", {TopicPartition("orders", each): 5 for each in range(3)})


@contextmanager
def feed(watched: Watched, topic: str) -> Iterator[None]:
    """Records that arrive one after another, until it is left."""
    over = threading.Event()

    def send() -> None:
        with watched.stage.client() as client:
            producer = Producer(client)
            while not over.is_set():
                producer.send(TopicPartition(topic, 0), [(now(), None, b"moving", [])])

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


@contextmanager
def following(watched: Watched, topic: str) -> Iterator[None]:
    """A consumer that reads what arrives, until it is left."""
    over = threading.Event()

    def read() -> None:
        with watched.stage.client() as client:
            consumer = Consumer(client)
            consumer.assign({TopicPartition(topic, 0): 0})
            while not over.is_set():
                consumer.poll(0.2)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def is_wider_than_the_window(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


@pytest.mark.parametrize("width, scheme", [(1440, "light"), (390, "dark")])
def test_every_page_loads_without_errors_fits_its_window_and_can_be_read(
    browser: Browser, watched: Watched, width: int, scheme: str
) -> None:
    with viewing(browser, watched.address, width=width, scheme=scheme) as viewer:
        for path, landmark in PAGES.items():
            page = viewer.open(path, landmark)
            assert not is_wider_than_the_window(page), f"{path} is cut off at {width}"
            assert not page.evaluate(NAMELESS), f"{path} has controls that cannot be read aloud"
            assert not page.evaluate(FAINT), f"{path} has texts that are hardly seen"
        assert "token" not in page.url


def test_the_overview_shows_every_node_and_says_that_the_cluster_is_healthy(viewer: Viewer) -> None:
    page = viewer.open("/", ".verdict[data-word='healthy']")
    expect(page.locator("tr[data-node][data-state='up']")).to_have_count(3)
    expect(page.locator("text=active controller")).to_have_count(1)
    expect(page.locator(".timeline")).to_contain_text("unfenced")
    assert not viewer.faults


def test_the_lanes_move_while_records_are_produced_and_stand_still_when_frozen(
    viewer: Viewer, watched: Watched
) -> None:
    watched.stage.create_topic("moving", 1, 3)
    page = viewer.open("/replication/moving/0", ".lane")
    expect(page.locator(".lane")).to_have_count(3)
    end = page.locator("[data-fact='log-end'] .figure")
    with feed(watched, "moving"):
        seen = set()
        for _ in range(3):
            before = end.inner_text()
            expect(end).not_to_have_text(before)
            seen.add(end.inner_text())
        assert len(seen) == 3
        expect(page.locator(".strip .fresh").first).to_be_attached()
        expect(page.locator(".fetches tbody tr").first).to_be_visible()
        page.get_by_role("button", name="Freeze").click()
        frozen = end.inner_text()
        with watched.stage.client() as client:
            before_count = high_watermark(client, "moving")
            wait_until(lambda: high_watermark(client, "moving") > before_count + 5, "records arrive")
        assert end.inner_text() == frozen
        page.get_by_role("button", name="Go on").click()
        expect(end).not_to_have_text(frozen)


def high_watermark(client: Client, topic: str) -> int:
    place = TopicPartition(topic, 0)
    found = list_offsets(client, {place: LATEST})[place]
    assert isinstance(found, FoundOffset)
    return found.offset


def test_the_browser_shows_a_record_of_a_real_client_with_all_its_digits(viewer: Viewer, watched: Watched) -> None:
    watched.stage.create_topic("real", 1, 3)
    producer = ConfluentProducer({"bootstrap.servers": watched.stage.bootstrap})
    producer.produce("real", key="customer-7", value=EXACT, headers={"source": "web"})
    assert producer.flush(60) == 0
    page = viewer.open("/topics/real/messages", ".records tbody tr")
    row = page.locator(".records tbody tr").first
    expect(row).to_contain_text("customer-7")
    expect(row.locator(".compact .json-number").first).to_have_text("9007199254740993")
    expect(row).to_contain_text("source=web")
    row.get_by_role("button", name="more").click()
    expect(row.locator(".payload[data-kind='json']")).to_have_text('{\n  "id": 9007199254740993,\n  "total": 12.50\n}')


def test_filters_are_part_of_the_address_and_choose_by_json_path(viewer: Viewer, watched: Watched) -> None:
    watched.stage.create_topic("filtered", 1, 3)
    with watched.stage.client() as client:
        values = [json.dumps({"customer": {"id": number}}).encode() for number in range(9)]
        Producer(client).send(TopicPartition("filtered", 0), [(now(), None, value, []) for value in values])
    page = viewer.open("/topics/filtered/messages", ".records tbody tr")
    expect(page.locator(".records tbody tr")).to_have_count(9)
    page.get_by_label("JSON path").fill("customer.id >= 7")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.locator(".records tbody tr")).to_have_count(2)
    assert "path=customer.id" in page.url
    page.reload()
    expect(page.locator(".records tbody tr")).to_have_count(2)


def test_the_live_tail_shows_what_arrives_and_joins_no_group(viewer: Viewer, watched: Watched) -> None:
    watched.stage.create_topic("tailed", 1, 3)
    page = viewer.open("/topics/tailed/messages", "text=No record is there")
    page.get_by_role("button", name="Live tail").click()
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    with feed(watched, "tailed"):
        expect(page.locator(".records tbody tr").nth(2)).to_contain_text("moving")
    with watched.stage.client() as client:
        assert [each.group_id for each in Groups(client).list_groups()] == ["billing"]


def test_a_hostile_record_does_no_harm(viewer: Viewer, watched: Watched) -> None:
    watched.stage.create_topic("hostile", 1, 3, {"max.message.bytes": "12000000"})
    script = "<img src=x onerror='window.harmed=1'><script>window.harmed=1</script>"
    hostile = [
        (now(), script.encode(), f'{{"a":"{script}"}}'.encode(), [(script, script.encode())]),
        (now(), b"\x00\x1b[2J\x07", b"\x1b]0;owned\x07\x00", []),
        (now(), b"\xff\xfe\xc3\x28", b"\xc3\x28\xf0\x90\x28\xbc" * 9, [("\udcff", b"\xff")]),
        (now(), b"large", b"<b>" + b"x" * 10_000_000, []),
    ]
    with watched.stage.client() as client:
        for each in hostile:
            Producer(client).send(TopicPartition("hostile", 0), [each])
    page = viewer.open("/topics/hostile/messages?start=earliest", ".records tbody tr")
    rows = page.locator(".records tbody tr")
    expect(rows).to_have_count(4)
    for row in rows.all():
        if row.get_by_role("button", name="more").count():
            row.get_by_role("button", name="more").click()
    expect(rows.nth(0)).to_contain_text("<script>window.harmed=1</script>")
    assert page.locator(".records img, .records script, .payload b, .compact b").count() == 0
    assert page.evaluate("window.harmed") is None
    expect(rows.nth(1).locator("pre[data-kind='hex']").first).to_be_attached()
    expect(rows.nth(2).locator("pre[data-kind='hex']").first).to_be_attached()
    expect(rows.nth(3)).to_contain_text("cut here")
    assert not is_wider_than_the_window(page)


def test_a_message_is_produced_from_the_page_and_the_same_is_shown_as_a_command(
    viewer: Viewer, watched: Watched
) -> None:
    watched.stage.create_topic("produced", 1, 3)
    page = viewer.open("/topics/produced/messages", "text=No record is there")
    page.locator("summary", has_text="Produce a message").click()
    form = page.get_by_role("form", name="Produce a message")
    form.get_by_label("Key").fill("k")
    form.get_by_label("Value").fill("it's here")
    form.get_by_role("button", name="Produce").click()
    expect(page.locator(".banner[data-state='good']")).to_contain_text("Stored at partition 0, offset 0")
    expect(page.locator(".records tbody tr")).to_contain_text("it's here")
    page.locator("summary", has_text="The same as a command").click()
    expect(page.locator("pre.command")).to_contain_text("highwater console-producer")


def test_a_range_is_replayed_into_another_topic_with_keys_headers_and_times(viewer: Viewer, watched: Watched) -> None:
    stage = watched.stage
    stage.create_topic("origin", 1, 3)
    stage.create_topic("copy", 1, 3)
    begun = now()
    with stage.client() as client:
        rows = [(begun + at, b"k%d" % at, None if at == 3 else b"v%d" % at, [("source", b"web")]) for at in range(8)]
        Producer(client).send(TopicPartition("origin", 0), rows)
    page = viewer.open("/topics/origin/messages", ".records tbody tr")
    page.locator("summary", has_text="Replay a range").click()
    form = page.get_by_role("form", name="Replay a range")
    form.get_by_label("From offset").fill("2")
    form.get_by_label("Until offset").fill("6")
    form.get_by_label("Into topic").fill("copy")
    form.get_by_role("button", name="Replay").click()
    expect(page.locator(".banner[data-state='good']")).to_have_text("4 records are in copy.")
    with stage.client() as client:
        consumer = Consumer(client)
        consumer.assign({TopicPartition("copy", 0): 0})
        found: list[Record] = []
        wait_until(lambda: found.extend(each for got in consumer.poll(0.2) for each in got) or len(found) >= 4, "four")
    assert [(each.timestamp, each.key, each.value, list(each.headers)) for each in found] == rows[2:6]


def test_the_health_page_tells_free_disk_space_and_the_latency_of_produce_and_fetch(
    viewer: Viewer, watched: Watched
) -> None:
    page = viewer.open("/", ".verdict")
    page.wait_for_selector("[data-tile='On disk']:has-text('free on')")
    watched.stage.create_topic("timed", 1, 3)
    with feed(watched, "timed"), following(watched, "timed"):
        tile = page.locator("[data-tile='Latency']")
        expect(tile.locator(".figure")).to_have_text(re.compile(r"^[0-9.,]+ · [0-9.,]+ ms$"))
        expect(tile).to_contain_text("99 of 100 are faster, on the slowest node")
        expect(page.locator("tr [data-fact='latency']", has_text=re.compile("[0-9] · [0-9]"))).not_to_have_count(0)


def test_the_list_of_topics_says_how_long_each_is_kept(viewer: Viewer, watched: Watched) -> None:
    watched.stage.create_topic("brief", 1, 3, {"retention.ms": "5400000", "retention.bytes": "1048576"})
    watched.stage.create_topic("latest", 1, 3, {"cleanup.policy": "compact"})
    page = viewer.open("/topics", "td:has-text('latest')")
    for topic, kept in {
        "orders": "7 d",
        "brief": "90 min, 1.0 MiB a partition",
        "latest": "the last of each key",
    }.items():
        expect(page.locator("tbody tr", has_text=topic).locator("td").last).to_have_text(kept)


def test_a_setting_is_changed_and_then_shown_as_set_on_the_topic(viewer: Viewer, watched: Watched) -> None:
    watched.stage.create_topic("settled", 1, 3)
    page = viewer.open("/topics/settled/settings", "[data-setting='max.message.bytes']")
    row = page.locator("[data-setting='max.message.bytes']")
    row.get_by_role("button", name="Edit").click()
    row.get_by_label("New value of max.message.bytes").fill("60000")
    row.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("set on the topic")
    expect(row).to_contain_text("1048588")
    row.get_by_role("button", name="Remove").click()
    expect(row).to_contain_text("default")


def test_the_offsets_of_a_group_are_reset_after_a_preview(viewer: Viewer, watched: Watched) -> None:
    page = viewer.open("/groups/billing", ".chart")
    expect(page.locator("h2", has_text="Lag 45")).to_be_visible()
    form = page.get_by_role("form", name="Reset offsets")
    form.get_by_label("Move").select_option("shift")
    form.get_by_role("textbox", name="Number").fill("-2")
    form.get_by_role("button", name="Preview").click()
    expect(page.locator("pre.command")).to_contain_text("--shift-by -2 --execute")
    with watched.stage.client() as client:
        assert Groups(client).committed("billing")[TopicPartition("orders", 0)].offset == 5
        page.get_by_role("button", name="Set these offsets").click()
        expect(page.locator(".banner[data-state='good']")).to_contain_text("3 offsets are set")
        assert Groups(client).committed("billing")[TopicPartition("orders", 0)].offset == 3
    expect(page.locator("h2", has_text="Lag 51")).to_be_visible()


def test_a_tab_that_nobody_sees_has_no_stream(viewer: Viewer) -> None:
    page = viewer.open("/", ".verdict")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    hide = "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true }); \
            document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    expect(page.locator("#live")).to_have_attribute("data-state", "idle")
    with page.expect_request(lambda request: "api/events?view=overview" in request.url):
        page.evaluate(hide, False)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    assert not viewer.faults


def test_every_page_is_reached_by_keys(viewer: Viewer) -> None:
    page = viewer.open("/", ".verdict")
    for key, landmark in (
        ("m", "Move it"),
        ("p", "Where does it go?"),
        ("l", "Recordings"),
        ("t", "What is in it?"),
        ("g", "Who reads it?"),
        ("r", "How does replication stand?"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(landmark)
    page.keyboard.press("/")
    page.keyboard.type("no such topic")
    expect(page.locator(".empty")).to_have_text("No topic matches.")
    assert not viewer.faults


def test_what_is_not_there_is_named(viewer: Viewer) -> None:
    for path, words in {
        "/replication/orders/99": "orders has 3 partitions, from 0 on.",
        "/replication/oders/0": "There is no topic oders.",
        "/replication/orders/first": "There is no such page.",
        "/replication/oders": "There is no topic oders.",
        "/topics/oders/messages": "there is no topic oders",
        "/groups/biling": "There is no group biling.",
        "/nowhere": "There is no such page.",
    }.items():
        page = viewer.open(path, ".banner, .failed, .empty")
        expect(page.locator("main")).to_contain_text(words)
    page = viewer.open("/replication/orders/2", ".lane")
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    assert not viewer.faults[1:], "a question for a topic that is not there is one message of the browser, and no more"
    viewer.faults.clear()


def test_a_page_of_a_console_that_was_started_anew_says_how_to_go_on(browser: Browser, watched: Watched) -> None:
    port = str(free_ports(1)[0])
    with own_console(watched.stage.bootstrap, "--port", port) as address:
        viewer = Viewer(browser, address)
        page = viewer.open("/", ".verdict")
    state = page.locator("#live")
    try:
        expect(state).to_have_attribute("data-state", "lost")
        with own_console(watched.stage.bootstrap, "--port", port):
            expect(state).to_have_text("locked: open the address that the console printed")
    finally:
        viewer.context.close()


def test_a_wrong_token_shows_a_locked_page_and_nothing_of_the_cluster(browser: Browser, watched: Watched) -> None:
    context = browser.new_context()
    try:
        page = context.new_page()
        answer = page.goto(watched.address.partition("=")[0] + "=wrong")
        assert answer is not None and answer.status == 401
        expect(page.locator("h1")).to_have_text("This console is locked")
        refused = page.goto(watched.address.partition("?")[0] + "api/session")
        assert refused is not None and refused.status == 401
    finally:
        context.close()
