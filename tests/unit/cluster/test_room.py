"""What `up` says of a disk that fills up."""

from __future__ import annotations

from pathlib import Path

from highwater.cluster.room import Room


def test_a_full_disk_is_reported_once_and_so_is_its_room(tmp_path: Path) -> None:
    room = Room(tmp_path)
    assert list(room.news()) == []
    room.least = 1 << 62
    (news_line,) = room.news()
    assert news_line.startswith(f"the disk of {tmp_path} is full (") and news_line.endswith("until there is room")
    assert list(room.news()) == []
    room.least = 0
    assert list(room.news()) == [f"the disk of {tmp_path} has room again"]
    assert list(room.news()) == []


def test_a_directory_that_is_gone_is_reported_once_and_ends_no_node(tmp_path: Path) -> None:
    there = tmp_path / "data"
    there.mkdir()
    room = Room(there, least=0)
    assert list(room.news()) == []
    there.rmdir()
    (line,) = room.news()
    assert "cannot be read" in line and str(there) in line
    assert list(room.news()) == []
    there.mkdir()
    assert list(room.news()) == []
