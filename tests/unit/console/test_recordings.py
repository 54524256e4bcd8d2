"""Which recordings are listed and given out: those of one folder, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from highwater.console import recordings
from highwater.console.recordings import MOST_LISTED, Recordings


def asked(endpoint: Callable[[Request], Awaitable[Response]], name: str = "") -> tuple[int, str]:
    async def ask() -> Response:
        return await endpoint(Request({"type": "http", "path_params": {"name": name}}))

    answer = asyncio.run(ask())
    return answer.status_code, bytes(answer.body).decode()


def names(found: Recordings) -> list[tuple[str, str]]:
    status, text = asked(found.names)
    assert status == 200
    listed: dict[str, Any] = json.loads(text)
    return [(each["name"], each["size"]) for each in listed["recordings"]]


def test_without_a_folder_there_are_no_recordings_and_the_page_is_told_why() -> None:
    status, text = asked(Recordings(None).names)
    assert (status, json.loads(text)) == (200, {"folder": False, "recordings": []})
    assert asked(Recordings(None).text, "kept.jsonl")[0] == 404


def test_files_with_the_endings_of_recordings_are_listed_by_name_with_their_sizes(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text("12345")
    (tmp_path / "a.ndjson").write_text("1")
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert names(Recordings(tmp_path)) == [("a.ndjson", "1"), ("b.jsonl", "5"), ("empty.jsonl", "0")]


def test_a_recording_that_is_added_later_is_listed(tmp_path: Path) -> None:
    found = Recordings(tmp_path)
    assert names(found) == []
    (tmp_path / "new.jsonl").write_text("{}")
    assert names(found) == [("new.jsonl", "2")]


def test_of_very_many_the_first_are_listed(tmp_path: Path) -> None:
    for number in range(MOST_LISTED + 5):
        (tmp_path / f"{number:04}.jsonl").write_text("{}")
    found = names(Recordings(tmp_path))
    assert len(found) == MOST_LISTED and found[0] == ("0000.jsonl", "2")


@pytest.mark.parametrize(
    "name", ["secret.txt", "../out.jsonl", "..", "", ".", "/etc/passwd", "in/deep.jsonl", "a\0.jsonl"]
)
def test_no_name_leads_out_of_the_folder_or_to_another_kind_of_file(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "kept"
    (folder / "in").mkdir(parents=True)
    for path in (tmp_path / "out.jsonl", folder / "secret.txt", folder / "in/deep.jsonl"):
        path.write_text("secret")
    status, text = asked(Recordings(folder).text, name)
    assert status == 404 and "secret" not in text


def test_the_text_is_given_out_as_it_is_and_bytes_that_are_no_text_have_a_sign(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes('{"title": "컨슈머"}\n'.encode() + b"\xff")
    assert asked(Recordings(tmp_path).text, "a.jsonl") == (200, '{"title": "컨슈머"}\n\ufffd')


def test_a_recording_that_is_too_large_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MOST_BYTES", 4)
    (tmp_path / "a.jsonl").write_text("12345")
    status, text = asked(Recordings(tmp_path).text, "a.jsonl")
    assert status == 413 and "4 bytes" in text


def test_a_folder_that_is_gone_is_an_answer(tmp_path: Path) -> None:
    found = Recordings(tmp_path / "gone")
    for endpoint in (found.names, found.text):
        status, text = asked(endpoint, "a.jsonl")
        assert status == 400 and "No such file" in json.loads(text)["error"]


def test_a_recording_that_goes_while_it_is_listed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Recordings(tmp_path)
    monkeypatch.setattr(found, "_files", lambda: {"a.jsonl": tmp_path / "a.jsonl"})
    assert names(found) == []
    assert asked(found.text, "a.jsonl")[0] == 404
