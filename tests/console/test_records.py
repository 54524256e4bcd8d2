"""The records of a topic in the page: found, followed, shown, written to files, produced and replayed."""

from __future__ import annotations

import csv
import json
import re

from confluent_kafka import Producer as ConfluentProducer
from playwright.sync_api import expect

from highwater.client import Consumer, Producer
from highwater.client.groups import Groups
from highwater.kernel import Record
from highwater.model import TopicPartition
from tests.cluster.stage import wait_until
from tests.console.browser import WAIT_MS, Viewer
from tests.console.conftest import Watched
from tests.console.readable import is_wider_than_the_window
from tests.console.traffic import feed, now

expect.set_options(timeout=WAIT_MS)

EXACT = '{"id":9007199254740993,"total":12.50}'
"""JavaScript's own numbers would round it."""


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


def test_records_are_found_by_offset_time_partition_and_key_and_written_to_files(
    viewer: Viewer, watched: Watched
) -> None:
    watched.stage.create_topic("searched", 2, 3)
    begun = now() - 60_000
    values = [b'{"at":%d,"id":9007199254740993}' % at for at in range(9)]
    sent = {
        partition: [(begun + at * 1000, b"k%d" % partition, value, []) for at, value in enumerate(values)]
        for partition in range(2)
    }
    with watched.stage.client() as client:
        for partition, records in sent.items():
            Producer(client).send(TopicPartition("searched", partition), records)
    rows = viewer.page.locator(".records tbody tr")

    def found(query: str) -> list[tuple[int, int]]:
        viewer.open(f"/topics/searched/messages?{query}", ".records tbody tr")
        return [
            (int(row.get_attribute("data-partition") or -1), int(row.get_attribute("data-offset") or -1))
            for row in rows.all()
        ]

    assert found("start=offset&partition=1&at=7") == [(1, 7), (1, 8)]
    assert sorted(found(f"start=time&at={begun + 6500}")) == [(0, 7), (0, 8), (1, 7), (1, 8)]
    assert set(found("partition=1")) == {(1, at) for at in range(9)}
    assert set(found("start=earliest&key=k0")) == {(0, at) for at in range(9)}
    page = viewer.page
    page.get_by_label("Key").first.fill("k1")
    page.get_by_role("button", name="Find the key's partition").click()
    expect(page.get_by_label("Partition", exact=True).first).to_have_value(re.compile("^[01]$"))
    viewer.open("/topics/searched/messages?start=earliest&partition=0&path=at %3E 6", ".records tbody tr")
    expect(rows).to_have_count(2)
    for button, name in (("JSON lines", "searched.jsonl"), ("CSV", "searched.csv")):
        with page.expect_download() as caught:
            page.get_by_role("button", name=button).click()
        assert caught.value.suggested_filename == name
        text = caught.value.path().read_text()
        lines = list(
            map(json.loads, text.splitlines()) if button == "JSON lines" else csv.DictReader(text.splitlines())
        )
        assert [(int(line["offset"]), line["value"]) for line in lines] == [(at, values[at].decode()) for at in (7, 8)]


def test_the_live_tail_shows_what_arrives_and_joins_no_group(viewer: Viewer, watched: Watched) -> None:
    watched.stage.create_topic("tailed", 1, 3)
    page = viewer.open("/topics/tailed/messages", "text=No record is there")
    page.get_by_role("button", name="Live tail").click()
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    with feed(watched, "tailed"):
        expect(page.locator(".records tbody tr").nth(2)).to_contain_text("moving")
    with watched.stage.client() as client:
        assert not Groups(client).list_groups()


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
