"""Frames cut from a stream: whatever the segmentation, and for no more memory than the bytes that came."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.wire.framing import CHUNK, MAX_FRAME, ChunkPool, FrameFault, FrameReader
from tests.wire.allocation import most_held


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def feed(reader: FrameReader, data: bytes, step: int) -> list[memoryview]:
    """As a transport does: each read takes at most `step` bytes and what the buffer has room for."""
    frames: list[memoryview] = []
    rest = memoryview(data)
    while rest:
        space = reader.space()
        assert len(space) > 0
        count = min(step, len(space), len(rest))
        space[:count] = rest[:count]
        del space
        rest = rest[count:]
        reader.received(count)
        while (frame := reader.next()) is not None:
            frames.append(frame)
        reader.settle()
    return frames


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 300) | st.integers(CHUNK - 20, CHUNK + 20) | st.integers(1, 300_000), max_size=8),
    step=st.integers(1, 50) | st.integers(1, 200_000),
)
def test_any_segmentation_yields_the_frames_that_were_sent(sizes: list[int], step: int) -> None:
    payloads = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    step = max(step, sum(sizes) // 2000 + 1)
    reader = FrameReader(ChunkPool())
    frames = feed(reader, b"".join(map(framed, payloads)), step)
    assert [bytes(frame) for frame in frames] == payloads
    assert reader.held == 0


@pytest.mark.parametrize("size", [0, -1, -(2**31), MAX_FRAME + 1, 2**31 - 1])
def test_an_impossible_size_is_a_fault(size: int) -> None:
    with pytest.raises(FrameFault):
        feed(FrameReader(ChunkPool()), struct.pack(">i", size), 4)


def test_the_largest_frame_is_still_a_frame() -> None:
    reader = FrameReader(ChunkPool(), max_frame=100)
    assert len(feed(reader, framed(b"x" * 100), 1000)) == 1
    with pytest.raises(FrameFault):
        feed(reader, framed(b"x" * 101), 1000)


def test_frames_before_a_fault_are_handed_out_first() -> None:
    reader = FrameReader(ChunkPool())
    space = reader.space()
    data = framed(b"good") + struct.pack(">i", -5)
    space[: len(data)] = data
    reader.received(len(data))
    assert reader.next() == b"good"
    with pytest.raises(FrameFault):
        reader.next()


def test_a_frame_is_writable_and_is_not_overwritten_while_it_lives() -> None:
    pool = ChunkPool()
    reader = FrameReader(pool)
    (kept,) = feed(reader, framed(b"first"), 100)
    kept[0:1] = b"F"
    for _ in range(20):
        feed(reader, framed(b"other" * 100), 1000)
        feed(FrameReader(pool), framed(b"other" * 100), 1000)
    assert kept == b"First"


def test_a_chunk_is_used_again_once_its_frames_are_gone() -> None:
    pool = ChunkPool()
    reader = FrameReader(pool)
    feed(reader, framed(b"warm"), 100).clear()

    def feed_on() -> None:
        for _ in range(1000):
            feed(reader, framed(b"next"), 100).clear()

    assert most_held(feed_on, CHUNK) < CHUNK


def test_readers_that_receive_nothing_have_one_buffer_together() -> None:
    """Thousands of peers may close at once, and each of these reads brings no bytes."""
    pool = ChunkPool()
    idle, begun = [FrameReader(pool) for _ in range(1000)], [FrameReader(pool) for _ in range(1000)]
    for reader in begun:
        feed(reader, b"\0", 100)
    readers = idle + begun
    assert len({id(reader.space().obj) for reader in readers}) == 1
    for reader in readers:
        assert feed(reader, framed(b"whole")[reader.held :], 3) == [b"whole"]


def test_many_frames_of_one_read_share_its_buffer() -> None:
    frames = feed(FrameReader(ChunkPool()), framed(b"a") * 1000, CHUNK)
    assert len(frames) == 1000
    assert len({id(frame.obj) for frame in frames}) == 1


def test_a_thousand_stalled_announcements_of_the_largest_frame_cost_little() -> None:
    def announce() -> None:
        pool = ChunkPool()
        readers = [FrameReader(pool) for _ in range(1000)]
        for reader in readers:
            feed(reader, struct.pack(">i", MAX_FRAME) + b"x" * 20, 100)
        assert all(reader.held == 24 for reader in readers)

    assert most_held(announce, 2_000_000) < 2_000_000


@pytest.mark.parametrize("arrived", [100, CHUNK // 2, CHUNK - 1, CHUNK, 3 * CHUNK, 1_000_000])
def test_memory_follows_what_arrived_not_what_was_announced(arrived: int) -> None:
    reader = FrameReader(ChunkPool())
    feed(reader, struct.pack(">i", MAX_FRAME) + b"x" * (arrived - 4), 10_000)
    assert reader.held <= 2 * arrived


def test_a_peer_that_sent_a_large_frame_gets_as_much_at_once_for_the_next() -> None:
    reader = FrameReader(ChunkPool())
    feed(reader, framed(bytes(500_000)), 10_000)
    feed(reader, struct.pack(">i", MAX_FRAME) + bytes(CHUNK), CHUNK)
    assert reader.held == reader.claim == 500_004


def test_the_buffer_for_an_announced_frame_is_bounded() -> None:
    reader = FrameReader(ChunkPool())
    feed(reader, framed(bytes(9_000_000)), 1_000_000)
    feed(reader, struct.pack(">i", MAX_FRAME) + bytes(CHUNK), CHUNK)
    assert reader.held == 2 * 1024 * 1024


def test_the_claim_is_what_reading_on_will_take() -> None:
    reader = FrameReader(ChunkPool())
    feed(reader, struct.pack(">i", MAX_FRAME) + bytes(2 * CHUNK - 4), CHUNK)
    held, claim = reader.held, reader.claim
    assert (held, claim) == (2 * CHUNK, 4 * CHUNK)
    reader.space()
    assert reader.held == claim


def test_a_large_frame_ends_in_a_buffer_of_its_exact_size() -> None:
    reader = FrameReader(ChunkPool())
    (frame,) = feed(reader, framed(b"x" * 1_000_001), 10_000)
    assert len(frame.obj) == 1_000_005  # type: ignore[arg-type]


def test_frames_left_uncut_are_kept_and_cut_later() -> None:
    reader = FrameReader(ChunkPool())
    data = framed(b"one") + framed(b"two") + framed(b"three")
    space = reader.space()
    space[: len(data)] = data
    del space
    reader.received(len(data))
    assert reader.next() == b"one"
    reader.settle()
    assert reader.held == len(data) - 7
    assert reader.next() == b"two"
    assert feed(reader, framed(b"four"), 100) == [b"three", b"four"]


def test_the_reader_takes_more_bytes_while_whole_frames_wait() -> None:
    reader = FrameReader(ChunkPool())
    sent = b"".join(framed(b"%06d" % index) for index in range(30_000))
    rest = memoryview(sent)
    while rest:
        space = reader.space()
        count = min(len(space), len(rest))
        space[:count] = rest[:count]
        rest = rest[count:]
        reader.received(count)
        reader.settle()
    frames = []
    while (frame := reader.next()) is not None:
        frames.append(int(frame))
    assert frames == list(range(30_000))
