"""Recordings of the lab in the page: replayed in both languages, and as one file that needs nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from highwater.lab.frame import Frame, Read, Recording, Words
from tests.console.browser import WAIT_MS, Viewer, viewing
from tests.console.own_console import own_console

expect.set_options(timeout=WAIT_MS)

NOWHERE = "127.0.0.1:9"
"""Recordings need no cluster."""
KILLED = "leader-killed"
READ = Recording(
    "made-up",
    Words("A consumer reads", "컨슈머가 읽는다"),
    [
        Frame(
            Words("it is sent on", "다른 곳으로 보낸다"),
            Words("{count} fetches", "페치 {count}번"),
            {"count": 3},
            reads=(
                Read(1, True, 4, 0, 9, preferred=3),
                Read(3, False, 4, 2, 9),
                Read(3, False, 6, 0, -1, error="NOT_LEADER_OR_FOLLOWER"),
            ),
            files=((Words("offsets", "오프셋"), "4 5"), ("orders-0/", "00000000000000000004.log")),
        )
    ],
)
"""With what the other recording does not have."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a recording of a real experiment, and with files that are none."""
    found = tmp_path_factory.mktemp("recordings")
    command = [sys.executable, "-m", "highwater", "lab", "run", KILLED, "--record", str(found / "killed.jsonl")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (found / "other.jsonl").write_text('{"version": 1}\n')
    (found / "secret.txt").write_text("not to be listed")
    (found / "read.jsonl").write_text("\n".join(READ.lines()))
    return found


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with own_console(NOWHERE, "--recordings", str(folder)) as found:
        yield found


@pytest.fixture
def viewer(browser: Browser, address: str) -> Iterator[Viewer]:
    with viewing(browser, address) as found:
        yield found


def story(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "killed.jsonl").read_text().splitlines()]


def walk(page: Page, frames: int) -> None:
    """To the second picture by the scrubber, and back and ahead by the keys."""
    scrubber = page.get_by_role("slider", name="Picture")
    scrubber.fill("1")
    expect(page.locator(".narration h2")).to_have_text("the leader dies")
    expect(page.locator(".lane[data-node='1'][data-state='down']")).to_be_visible()
    expect(page.locator(".lane[data-node='2'][data-role='leader']")).to_contain_text("leader")
    scrubber.blur()
    page.keyboard.press("ArrowRight")
    expect(scrubber).to_have_value("2")
    page.keyboard.press("ArrowLeft")
    page.get_by_role("combobox", name="Language").select_option("ko")
    expect(page.locator(".narration")).to_contain_text("리더")
    expect(page.get_by_role("slider", name="그림")).to_have_attribute("max", str(frames - 1))
    page.get_by_role("button", name="한 단계 뒤로").click()
    expect(page.locator(".narration h2")).to_have_text("모두가 가졌지만 아무도 모르는 레코드")


def test_a_recording_of_the_folder_is_replayed_with_a_scrubber_in_both_languages(viewer: Viewer, folder: Path) -> None:
    page = viewer.open("/recordings", "td:has-text('killed.jsonl')")
    expect(page.locator("td", has_text="secret.txt")).to_have_count(0)
    page.get_by_role("link", name="killed.jsonl").click()
    expect(page.locator(".narration")).to_contain_text("acks=all")
    assert "{" not in page.locator(".narration").inner_text(), "every fact has its place in the text"
    walk(page, len(story(folder)) - 1)
    assert page.url.endswith("frame=1&lang=ko"), "a picture is an address"
    page.get_by_role("slider", name="그림").fill("2")
    page.get_by_role("button", name="재생").click()
    expect(page.locator(".narration h2")).to_have_text("무엇을 잃었고, 왜 잃었나")


def test_fetches_of_consumers_and_headings_are_shown_in_the_language_that_is_chosen(viewer: Viewer) -> None:
    page = viewer.open("/recordings/read.jsonl", ".reads")
    assert page.locator(".panel h2").all_inner_texts()[2:] == [
        "Fetches of the consumer, and the answers", "offsets", "orders-0/"
    ]  # fmt: skip
    rows = page.locator(".reads tbody tr")
    expect(rows.nth(0)).to_contain_text("1 (leader)4no records: read from node 3")
    expect(rows.nth(1)).to_contain_text("3 (follower)4records: 2, high watermark 9")
    expect(rows.nth(2)).to_contain_text("NOT_LEADER_OR_FOLLOWER")
    page.get_by_role("combobox", name="Language").select_option("ko")
    expect(rows.nth(0)).to_contain_text("1 (리더)4레코드 없음: 노드 3에서 읽을 것")
    assert page.locator(".panel h2").all_inner_texts()[3:] == ["오프셋", "orders-0/"]


def test_a_recording_of_the_viewer_stays_in_the_browser_and_what_is_none_is_refused(
    viewer: Viewer, folder: Path
) -> None:
    page = viewer.open("/recordings", "input[type=file]")
    chooser = page.get_by_label("A file of yours")
    chooser.set_input_files(folder / "secret.txt")
    expect(page.locator(".banner")).to_contain_text("secret.txt: This is no recording")
    chooser.set_input_files(folder / "killed.jsonl")
    walk(page, len(story(folder)) - 1)
    page = viewer.open("/recordings/other.jsonl", ".banner")
    assert "This is no recording" in page.locator(".banner").inner_text()


@pytest.mark.parametrize("name", ["..%2Fsecret.txt", "secret.txt", "missing.jsonl"])
def test_only_recordings_of_the_folder_are_given_out(viewer: Viewer, name: str) -> None:
    assert viewer.page.request.get(f"{viewer.base}/api/recordings/{name}").status == 404


def test_the_exported_file_plays_without_the_console_and_asks_for_nothing(
    browser: Browser, viewer: Viewer, folder: Path, tmp_path: Path
) -> None:
    hostile = story(folder)
    hostile[1]["title"] = ["</script><img src=x onerror=window.harmed=1>", "</script>"]
    changed = tmp_path / "hostile.jsonl"
    changed.write_text("\n".join(json.dumps(each) for each in hostile))
    page = viewer.open("/recordings", "input[type=file]")
    page.get_by_label("A file of yours").set_input_files(changed)
    with page.expect_download() as caught:
        page.get_by_role("button", name="Export as HTML").click()
    file = tmp_path / caught.value.suggested_filename
    caught.value.save_as(file)
    assert file.name == f"{KILLED}.html"
    context = browser.new_context(offline=True)
    try:
        alone = context.new_page()
        asked: list[str] = []
        faults: list[str] = []
        alone.on("request", lambda request: asked.append(request.url))
        alone.on("console", lambda message: faults.append(message.text))
        alone.on("pageerror", lambda error: faults.append(str(error)))
        alone.goto(file.as_uri())
        expect(alone.locator(".narration h2")).to_have_text("</script><img src=x onerror=window.harmed=1>")
        alone.get_by_role("slider", name="Picture").fill("1")
        expect(alone.locator(".lane[data-node='1'][data-state='down']")).to_be_visible()
        alone.get_by_role("combobox", name="Language").select_option("ko")
        expect(alone.locator(".narration")).to_contain_text("리더")
        assert asked == [file.as_uri()] and not faults
        assert alone.evaluate("window.harmed") is None
    finally:
        context.close()
