"""Batches read in a row: what continues the log, what ends it, and what is damage."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

import pytest

from highwater.log import scan as scanning
from highwater.log.scan import BadBatch, intact_batch_follows, scan
from highwater.wire.records import HEADER_SIZE
from highwater.world import File
from highwater.world.real_disk import RealDisk
from tests.unit.log.bench import batch

SMALL = len(batch())


def at(offset: int, size: int = 1) -> bytes:
    """A batch of one record there, of so many bytes more."""
    data = batch([b"x" * size])
    data[:8] = offset.to_bytes(8, "big")
    return bytes(data)


def file_of(tmp_path: Path, *parts: bytes) -> File:
    file = RealDisk().open(PurePath(tmp_path / "x.log"), create=True)
    file.append(b"".join(parts))
    return file


def offsets(file: File, position: int = 0, next_offset: int = 0, check: bool = True) -> list[int]:
    return [each.header.base_offset for each in scan(file, position, next_offset, check)]


def refusal(file: File, check: bool = True) -> BadBatch:
    with pytest.raises(BadBatch) as refused:
        offsets(file, check=check)
    return refused.value


@pytest.mark.parametrize("chunk", [HEADER_SIZE, 100, SMALL * 2, 1 << 20])
def test_batches_are_found_whatever_is_read_at_a_time(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "CHUNK", chunk)
    parts = [at(0), at(1, 500), at(7), at(8, 20), at(9, 300)]
    file = file_of(tmp_path, *parts)
    found = list(scan(file, 0, 0))
    assert [bytes(each.data) for each in found] == parts
    assert [each.position for each in found] == [sum(map(len, parts[:number])) for number in range(5)]
    assert offsets(file, found[2].position, 7) == [7, 8, 9]
    assert offsets(file, file.size) == []


def test_a_file_that_just_ends_is_cut_off(tmp_path: Path) -> None:
    whole = file_of(tmp_path, at(0), at(1))
    for left in (len(at(1)) - 1, HEADER_SIZE, HEADER_SIZE - 1, 1):
        whole.truncate(len(at(0)) + left)
        bad = refusal(whole)
        assert (bad.position, bad.cut_off, bad.goes_back) == (len(at(0)), True, False)


def test_a_file_that_was_cut_since_it_was_opened_is_damaged_and_no_batch_is_short(tmp_path: Path) -> None:
    file = file_of(tmp_path, at(0), at(1, 100))
    os.truncate(file.path, len(at(0)) + HEADER_SIZE + 20)
    bad = refusal(file, check=False)
    assert (bad.position, bad.why) == (len(at(0)), "the file is shorter than it said")


@pytest.mark.parametrize(
    ("position", "value", "why"),
    [
        (16, b"\x01", "magic 1"),
        (8, b"\x00\x00\x00\x30", "length 48"),
        (23, b"\xff\xff\xff\xff", "is due"),
        (64, b"\xff", "its checksum is wrong"),
    ],
)
def test_bytes_that_are_no_batch_are_refused_where_they_lie(
    tmp_path: Path, position: int, value: bytes, why: str
) -> None:
    wrong = bytearray(at(1))
    wrong[position : position + len(value)] = value
    file = file_of(tmp_path, at(0), bytes(wrong), at(2))
    bad = refusal(file)
    assert why in str(bad)
    assert (bad.position, bad.cut_off, bad.goes_back) == (len(at(0)), False, position == 23)


def test_a_checksum_is_looked_at_only_where_that_is_asked_for(tmp_path: Path) -> None:
    wrong = bytearray(at(1))
    wrong[64] ^= 1
    assert offsets(file_of(tmp_path, at(0), bytes(wrong), at(2)), check=False) == [0, 1, 2]


def test_an_offset_that_goes_back_is_a_damage_of_its_own(tmp_path: Path) -> None:
    bad = refusal(file_of(tmp_path, at(5), at(5)))
    assert (bad.goes_back, bad.cut_off) == (True, False)
    assert "offset 5 where 6 or more is due" in str(bad)
    assert BadBatch(*bad.args).goes_back, "it comes out of worker processes as it was"


@pytest.mark.parametrize("chunk", [1, 50, SMALL, 1 << 20])
def test_an_intact_batch_behind_damage_is_found_wherever_it_begins(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "CHUNK", chunk)
    file = file_of(tmp_path, b"\xff" * 77, at(9))
    assert intact_batch_follows(file, 0, 9)
    assert intact_batch_follows(file, 76, 9)
    assert not intact_batch_follows(file, 77, 9), "what begins there is what is asked about"
    assert not intact_batch_follows(file, 0, 10), "its offset is one that was there before"


def test_a_batch_that_is_not_whole_or_not_intact_does_not_count_as_following(tmp_path: Path) -> None:
    damaged = bytearray(at(9))
    damaged[-1] ^= 1
    for number, behind in enumerate((b"", bytes(200), at(9)[:-1], bytes(damaged), at(9)[: HEADER_SIZE - 1])):
        (tmp_path / str(number)).mkdir()
        assert not intact_batch_follows(file_of(tmp_path / str(number), b"\xff" * 77, behind), 0, 9)


def test_batches_with_far_offsets_are_found_by_their_upper_half(tmp_path: Path) -> None:
    far = 3 << 32
    assert intact_batch_follows(file_of(tmp_path, b"\xff" * 30, at(far + 5)), 0, far)
