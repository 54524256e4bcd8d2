"""Partitions are moved from the page: planned, begun, followed, cancelled, finished."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from highwater.client import Admin, Producer
from highwater.client.balance_sight import look
from highwater.model import TopicPartition
from tests.cluster.stage import Stage, wait_until
from tests.console.browser import WAIT_MS, Viewer
from tests.console.conftest import Watched
from tests.console.traffic import now

expect.set_options(timeout=WAIT_MS)

SLOWLY = "1000"
"""Bytes per second: what has some megabytes does not arrive while a test looks."""


def replicas(stage: Stage, topic: str) -> dict[int, tuple[int, ...]]:
    with stage.client() as client:
        found = look(client).partitions
        return {tp.partition: tuple(held.replicas) for tp, held in found.items() if tp.topic == topic}


def filled(stage: Stage, topic: str, on: list[int], megabytes: int) -> None:
    stage.create_topic_on(topic, on)
    with stage.client() as client:
        producer = Producer(client)
        for _ in range(megabytes):
            producer.send(TopicPartition(topic, 0), [(now(), None, bytes(100_000), [])] * 10)


def plan_move(page: Page, topic: str, target: str, throttle: str = "") -> None:
    form = page.get_by_role("form", name="Move a partition")
    form.get_by_label("Topic").fill(topic)
    form.get_by_label("New replicas").fill(target)
    form.get_by_label("Throttle").fill(throttle)
    form.get_by_role("button", name="Plan this move").click()


def ended(page: Page, partition: str) -> Locator:
    return page.locator(".ended tbody tr", has_text=partition).first


def test_a_reassignment_is_planned_begun_followed_cancelled_and_finished_from_the_page(
    viewer: Viewer, watched: Watched
) -> None:
    stage = watched.stage
    filled(stage, "moved", [1, 2], 8)
    page = viewer.open("/move", "tr[data-broker='3']")
    plan_move(page, "moved", "2, 3", SLOWLY)
    expect(page.locator(".plan tbody tr")).to_contain_text("2, 3")
    expect(page.locator("pre.command")).to_contain_text(f"--execute --additional --throttle {SLOWLY}")
    assert replicas(stage, "moved") == {0: (1, 2)}, "a plan moves nothing"

    page.get_by_role("button", name="Start these moves").click()
    catching_up = page.locator("[data-move='moved-0'] .catch-up[data-node='3']")
    bar = catching_up.get_by_role("progressbar", name="How far node 3 has caught up with moved-0")
    expect(bar).to_be_visible()
    assert float(bar.get_attribute("value") or 1) < 1
    expect(catching_up).to_contain_text("MiB")

    page.get_by_role("button", name="Cancel the move of moved-0").click()
    expect(ended(page, "moved-0")).to_contain_text("cancelled")
    assert set(replicas(stage, "moved")[0]) == {1, 2}
    page.get_by_role("button", name="Remove throttles").click()
    expect(page.locator(".banner[data-state='good']")).to_contain_text("1 topics have no throttle")

    plan_move(page, "moved", "3, 1")
    page.get_by_role("button", name="Start these moves").click()
    expect(ended(page, "moved-0")).to_contain_text("finished")
    expect(ended(page, "moved-0")).to_contain_text("3, 1")
    assert replicas(stage, "moved") == {0: (3, 1)}
    expect(page.locator("[data-move='moved-0']")).to_have_count(0)


def test_the_replication_factor_of_a_topic_is_changed_from_the_page(viewer: Viewer, watched: Watched) -> None:
    watched.stage.create_topic("factored", 3, 1)
    page = viewer.open("/move", "tr[data-broker='3']")
    form = page.get_by_role("form", name="Replication factor")
    form.get_by_label("Topic").fill("factored")
    form.get_by_label("Replicas").fill("4")
    form.get_by_role("button", name="Plan this change").click()
    expect(page.locator(".banner")).to_contain_text("4 replicas cannot be on 3 brokers")
    form.get_by_label("Replicas").fill("3")
    form.get_by_role("button", name="Plan this change").click()
    expect(page.locator(".plan tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Start these moves").click()
    expect(page.locator(".banner[data-state='good']")).to_contain_text("3 partitions began to move")
    wait_until(
        lambda: all(len(each) == 3 for each in replicas(watched.stage, "factored").values()), "all have three replicas"
    )
    assert not viewer.faults[1:], "a refused plan is one message of the browser, and no more"
    viewer.faults.clear()


def test_a_broker_is_drained_and_a_balance_fills_it_again(viewer: Viewer, watched: Watched) -> None:
    stage = watched.stage
    stage.create_topic("spread", 6, 1)
    with stage.client() as client:
        for topic in Admin(client).list_topics():
            if topic != "spread":
                Admin(client).delete_topics([topic])
    page = viewer.open("/move", "tr[data-broker='3']")
    page.get_by_role("button", name="Drain broker 3").click()
    expect(page.locator("pre.command")).to_contain_text("highwater balance")
    expect(page.locator("pre.command")).to_contain_text("--drain 3 --execute")
    page.get_by_role("button", name="Start these moves").click()
    expect(page.locator(".balance[data-state='finished']")).to_be_visible()
    assert all(3 not in each for each in replicas(stage, "spread").values())
    expect(page.locator("tr[data-broker='3'] td").nth(3)).to_have_text("0")

    page.get_by_role("button", name="Plan a balance").click()
    expect(page.locator(".plan tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Start these moves").click()
    wait_until(lambda: sum(3 in each for each in replicas(stage, "spread").values()) == 2, "broker 3 has its share")
    expect(page.locator(".balance[data-state='finished']")).to_be_visible()


def test_a_change_without_the_token_of_the_page_is_refused(viewer: Viewer) -> None:
    for verb in ("start", "cancel", "elect", "stop", "unthrottle"):
        answer = viewer.page.request.post(f"{viewer.base}/api/move/{verb}", data={"rows": []})
        assert answer.status == 403, verb
