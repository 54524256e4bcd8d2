"""The pages of the console in Chromium, on a live cluster."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from playwright.sync_api import Browser, expect

from highwater.client import Client, Producer
from highwater.client.groups import Groups
from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.model import TopicPartition
from tests.apache import free_ports
from tests.cluster.stage import wait_until
from tests.console.browser import WAIT_MS, Viewer, viewing
from tests.console.conftest import Watched
from tests.console.own_console import own_console
from tests.console.readable import check_readable
from tests.console.traffic import feed, following, now

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


@pytest.fixture(scope="module", autouse=True)
def orders(watched: Watched) -> None:
    """Records in each partition, and a group that has read some of them."""
    watched.stage.create_topic("orders", 3, 3)
    with watched.stage.client() as client:
        producer = Producer(client)
        for partition in range(3):
            producer.send(TopicPartition("orders", partition), [(now(), b"key", EXACT.encode(), [])] * 20)
        Groups(client).commit("billing", {TopicPartition("orders", each): 5 for each in range(3)})


def test_every_page_loads_without_errors_fits_its_window_and_can_be_read(viewer: Viewer) -> None:
    for path, landmark in PAGES.items():
        page = viewer.open(path, landmark)
        assert "token" not in page.url
        check_readable(page, path)


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
        back, ahead = (page.get_by_role("button", name=f"One step {way}") for way in ("back", "ahead"))
        back.click()
        expect(end).not_to_have_text(frozen)
        expect(page.get_by_text(re.compile(r"^frozen, [0-9.]+ s back$"))).to_be_visible()
        back.evaluate("each => each.blur()")
        page.keyboard.press("ArrowRight")
        expect(end).to_have_text(frozen)
        expect(ahead).to_be_enabled()
        page.get_by_role("button", name="Go on").click()
        expect(end).not_to_have_text(frozen)


def high_watermark(client: Client, topic: str) -> int:
    place = TopicPartition(topic, 0)
    found = list_offsets(client, {place: LATEST})[place]
    assert isinstance(found, FoundOffset)
    return found.offset


def test_the_health_page_tells_free_disk_space_and_the_latency_of_produce_and_fetch(
    viewer: Viewer, watched: Watched
) -> None:
    page = viewer.open("/", ".verdict")
    page.wait_for_selector("[data-tile='On disk']:has-text('free on')")
    watched.stage.create_topic("timed", 1, 3)
    with feed(watched, "timed"), following(watched, "timed"):
        tile = page.locator("[data-tile='Latency']")
        expect(tile.locator(".figure")).to_have_text(re.compile(r"^[0-9.,]+ · [0-9.,]+$"))
        expect(tile).to_contain_text("produce · fetch: 99 % take less")
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


def test_the_members_of_a_group_are_shown_with_their_partitions(viewer: Viewer, watched: Watched) -> None:
    settings = {"bootstrap.servers": watched.stage.bootstrap, "group.id": "shipping", "client.id": "shipper"}
    consumer = ConfluentConsumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        wait_until(lambda: consumer.poll(0.2) is not None and len(consumer.assignment()) == 3, "it has its partitions")
        page = viewer.open("/groups/shipping", "td:has-text('shipper')")
        member = page.locator("tr", has_text="shipper").last
        expect(member).to_contain_text("orders-0, orders-1, orders-2")
        form = page.get_by_role("form", name="Reset offsets")
    finally:
        consumer.close()
    with watched.stage.client() as client:
        wait_until(lambda: Groups(client).describe("shipping").group.group_state == "Empty", "it has left")
    expect(page.get_by_text("Nobody is in the group now.")).to_be_visible()
    expect(form).to_be_visible()
    with watched.stage.client() as client:
        Groups(client).delete(["shipping"])


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


def test_every_page_works_under_the_path_of_a_proxy_and_nothing_is_asked_outside_of_it(
    browser: Browser, watched: Watched
) -> None:
    with own_console(watched.stage.bootstrap, "--base-path", "/kafka/") as address:
        assert "/kafka/?token=" in address
        with viewing(browser, address) as viewer:
            asked: list[str] = []
            viewer.page.on("request", lambda request: asked.append(request.url))
            for path in ("/", "/topics", "/replication/orders/0", "/topics/orders/messages"):
                page = viewer.open(path, PAGES[path])
            page.get_by_role("link", name="Groups").first.click()
            page.wait_for_selector(PAGES["/groups"])
            assert page.url == f"{viewer.base}/groups"
            assert asked and all("/kafka/" in url for url in asked)
            answer = page.request.get(address.partition("/kafka")[0] + "/api/session")
            assert answer.status == 401, "the cookie is for this path alone"


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


def test_a_foreign_host_and_a_foreign_origin_are_refused(browser: Browser, watched: Watched) -> None:
    """Someone with the cookie opens another site, or one whose name was bound to this machine."""
    parts = urlsplit(watched.address)
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(watched.address)
        for path in ("/", f"/?{parts.query}", "/api/session"):
            answer = page.goto(f"http://rebound.localhost:{parts.port}{path}")
            assert answer is not None and answer.status == 403 and "--allow-host" in answer.text()
        # A page of another port of the same host: the browser sends the cookie along.
        page.goto(f"http://{watched.stage.nodes[1]['http']}/status")
        ask = "([url, how]) => fetch(url, { credentials: 'include', ...how }).then(() => 'read', () => 'refused')"
        url = f"http://{parts.netloc}/api/session"
        assert page.evaluate(ask, [url, {}]) == "refused"
        send = "url => { const form = document.createElement('form'); form.method = 'POST'; form.action = url; \
                document.body.append(form); form.submit(); }"
        with page.expect_navigation() as caught:
            page.evaluate(send, f"http://{parts.netloc}/api/move/stop")
        assert caught.value.status == 403 and "Another site" in caught.value.text()
    finally:
        context.close()
