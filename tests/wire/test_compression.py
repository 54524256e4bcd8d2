"""Codecs: framing that Java reads, output that stays within its limit, garbage that is named as such."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from random import Random

import cramjam
import pytest

from highwater.wire.compression import BadCompression, Codec, TooLarge, compress, decompress
from tests.wire.record_samples import damaged

REAL = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 1 << 20
SAMPLES = {
    "one byte": b"x",
    "repetitive": b"abcdef" * 50_000,
    "incompressible": Random(1).randbytes(200_000),
    "exactly one block": bytes(64 * 1024),
}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("sample", SAMPLES)
def test_compressed_data_is_decompressed_within_exactly_its_size(codec: Codec, sample: str) -> None:
    plain = SAMPLES[sample]
    packed = compress(codec, plain)
    assert decompress(codec, packed, len(plain)) == plain
    with pytest.raises(TooLarge):
        decompress(codec, packed, len(plain) - 1)


@pytest.mark.parametrize("codec", REAL)
def test_streams_that_follow_each_other_are_read_as_one(codec: Codec) -> None:
    parts = [b"first" * 1000, b"second" * 1000]
    packed = b"".join(bytes(compress(codec, part)) for part in parts)
    assert decompress(codec, packed, MIB) == b"".join(parts)
    with pytest.raises(TooLarge):
        decompress(codec, packed, 6000)


@pytest.mark.parametrize("codec", REAL)
def test_a_stream_cut_off_anywhere_is_refused(codec: Codec) -> None:
    packed = bytes(compress(codec, Random(2).randbytes(300)))
    for end in range(len(packed)):
        try:
            inflated = decompress(codec, packed[:end], MIB)
        except BadCompression:
            continue
        assert codec is Codec.SNAPPY and len(inflated) == 0, end  # a header with no chunk behind it


@pytest.mark.parametrize("codec", REAL)
def test_damaged_streams_are_refused_or_read_but_never_beyond_the_limit(codec: Codec) -> None:
    random = Random(3)
    packed = bytes(compress(codec, b"0123456789abcdef" * 500))
    refused = 0
    for _ in range(1000):
        try:
            assert len(decompress(codec, damaged(random, packed), 10_000)) <= 10_000
        except BadCompression:
            refused += 1
    assert refused > 100


def test_snappy_is_read_with_and_without_javas_framing() -> None:
    plain = b"message" * 10_000
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(plain)), MIB) == plain
    assert bytes(compress(Codec.SNAPPY, plain)).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")


def test_lz4_frames_with_linked_blocks_are_read_and_those_we_write_have_independent_ones() -> None:
    plain = b"message" * 50_000
    linked = bytes(cramjam.lz4.compress(plain))
    assert linked[4] & 0x20 == 0
    assert decompress(Codec.LZ4, linked, MIB) == plain
    assert bytes(compress(Codec.LZ4, plain))[4] & 0x20


def test_gzip_is_read_as_python_writes_it() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"plain"), 5) == b"plain"


@pytest.mark.parametrize(("codec", "weak", "strong"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 17), (Codec.ZSTD, -50, 19)])
def test_a_level_changes_the_size_and_not_the_contents(codec: Codec, weak: int, strong: int) -> None:
    random = Random(4)
    plain = b" ".join(random.choice((b"alpha", b"beta", b"gamma", b"delta")) for _ in range(20_000))
    small, large = compress(codec, plain, strong), compress(codec, plain, weak)
    assert len(memoryview(small)) < len(memoryview(large))
    assert decompress(codec, small, MIB) == decompress(codec, large, MIB) == plain


def test_the_highest_levels_of_zstd_are_for_batches_of_usual_sizes() -> None:
    """For 16 MB they would take 300 MB of memory."""
    usual = b"".join(b"%d" % (number * number) for number in range(50_000))
    large = b"".join(b"%d" % (number * number) for number in range(250_000))
    assert compress(Codec.ZSTD, usual, 19) != compress(Codec.ZSTD, usual, 9)
    assert compress(Codec.ZSTD, large, 19) == compress(Codec.ZSTD, large, 9)


def test_gzip_level_minus_one_is_its_default() -> None:
    assert compress(Codec.GZIP, b"abc" * 100, -1) == compress(Codec.GZIP, b"abc" * 100)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_unknown_codec_is_refused_both_ways(codec: int) -> None:
    with pytest.raises(BadCompression):
        compress(codec, b"x")
    with pytest.raises(BadCompression):
        decompress(codec, b"x", 10)


@pytest.mark.parametrize("codec", REAL)
def test_no_bytes_at_all_are_no_stream(codec: Codec) -> None:
    with pytest.raises(BadCompression):
        decompress(codec, b"", 10)


def test_a_snappy_block_that_declares_two_gigabytes_costs_nothing() -> None:
    lie = b"\xff\xff\xff\xff\x07" + b"abc"
    with pytest.raises(TooLarge):
        decompress(Codec.SNAPPY, lie, MIB)
    with pytest.raises(BadCompression, match="cannot hold"):
        decompress(Codec.SNAPPY, lie, 2**31)


def large_lz4_frames() -> tuple[bytes, bytes]:
    """Ours, and cramjam's own with linked blocks and checksums, in more bytes than are inflated in one go."""
    plain = [Random(number).randbytes(MIB) + bytes(MIB) for number in range(3)]
    frames = [
        bytes(compress(Codec.LZ4, plain[0])),
        bytes(cramjam.lz4.compress(plain[1])),
        bytes(compress(Codec.LZ4, plain[2])),
    ]
    return b"".join(plain), b"".join(frames)


def test_large_frames_of_lz4_that_follow_each_other_are_one_stream() -> None:
    plain, packed = large_lz4_frames()
    assert decompress(Codec.LZ4, packed, len(plain)) == plain
    with pytest.raises(TooLarge):
        decompress(Codec.LZ4, packed, len(plain) - 1)


@pytest.mark.parametrize("cut", [1, 4, 6, 1000])
def test_large_frames_of_lz4_that_are_cut_off_or_followed_by_garbage_are_refused(cut: int) -> None:
    _, packed = large_lz4_frames()
    with pytest.raises(BadCompression):
        decompress(Codec.LZ4, packed[:-cut], 100 * MIB)
    with pytest.raises(BadCompression):
        decompress(Codec.LZ4, packed + b"x" * cut, 100 * MIB)


BOMBS = Path(__file__).with_name("bombs.py")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")
def test_a_bomb_of_two_gigabytes_in_each_codec_costs_little_more_than_the_limit() -> None:
    done = subprocess.run(
        [sys.executable, BOMBS, str(16 * MIB)], capture_output=True, text=True, check=True, timeout=240
    )
    growth = dict(line.split() for line in done.stdout.splitlines())
    assert set(growth) == {"gzip", "snappy", "lz4", "zstd", "zstd-window"}
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert int(growth[codec]) < 24 * MIB, growth
    assert int(growth["zstd-window"]) < 40 * MIB, growth  # output and window, each bounded by the limit
