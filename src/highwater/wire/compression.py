"""The four codecs of record batches, framed as Java's clients frame them, with output that cannot exceed a limit."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from mmap import mmap
from typing import TYPE_CHECKING

import cramjam

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Codec(IntEnum):
    """A batch's codec as its attributes name it."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BadCompression(ValueError):
    """The bytes are not what the codec writes, or the codec is unknown."""


class TooLarge(BadCompression):
    """The bytes would inflate to more than the limit."""


SHARED = 1 << 20
"""A thread may have this many decompressed bytes in memory beside other threads."""
ALONE: AbstractContextManager[object] = nullcontext()
"""The lock of a thread that decompresses more than that. It keeps the lock until it has used these bytes, so all
threads together hold at most one large batch. A job with this lock does not pause. If jobs of the process run in
threads, the process puts an RLock here."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")

# Magic, independent 64 KiB blocks without checksums, and the checksum byte of exactly these two flag bytes.
# cramjam's own frames link their blocks, which Java's reader refuses.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_BLOCK_SIZE = struct.Struct("<I")
_LZ4_CHECKED_BLOCKS = 0x10
_LZ4_HAS_SIZE = 0x08
_LZ4_HAS_CHECKSUM = 0x04
_LZ4_HAS_DICTIONARY = 0x01
_LZ4_FAST_LEVEL = 9
_LZ4_HC_LEVELS = (3, 12)

_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_ZSTD_THOROUGH = 2 << 20
_ZSTD_MODEST_LEVEL = 9
# The begin of a frame whose window is larger than the 8 MiB of level 19: it says so, or the window is all of a frame
# that gives its size in four or eight bytes.
_ZSTD_LARGE_WINDOW = re.compile(
    rb"\x28\xb5\x2f\xfd(?:[\x00-\x1f\x40-\x5f\x80-\x9f\xc0-\xdf][\x69-\xff]|[\xa0-\xbf\xe0-\xff])"
)

_FIRST_GUESS = 64 * 1024
_PLAIN_BUFFER = 1 << 20
_COPIED = 1 << 20
_GROWTH = 4
_OUTPUT_FULL = "failed to write whole buffer"


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` in the codec's framing; levels are those of Kafka's compression.<codec>.level settings."""
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL if level is None or level < 0 else level))
    if codec == Codec.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec == Codec.LZ4:
        return _compress_lz4(memoryview(data), level)
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_zstd_level(memoryview(data).nbytes, level)))
    raise BadCompression(f"unknown codec {codec}")


def _zstd_level(size: int, level: int | None) -> int:
    """The highest levels need 20 times as much memory as the data: they are for batches of usual sizes."""
    if level is None:
        return _ZSTD_LEVEL
    return level if size <= _ZSTD_THOROUGH else min(level, _ZSTD_MODEST_LEVEL)


def _compress_xerial(data: memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK])
        out += _BLOCK_SIZE.pack(len(block))
        out += memoryview(block)
    return bytes(out)


def _compress_lz4(data: memoryview, level: int | None) -> bytes:
    out = bytearray(_LZ4_HEADER)
    for at in range(0, len(data), _LZ4_BLOCK):
        plain = data[at : at + _LZ4_BLOCK]
        block = _lz4_block(plain, level)
        if len(block) < len(plain):
            out += _LZ4_BLOCK_SIZE.pack(len(block))
            out += block
        else:
            out += _LZ4_BLOCK_SIZE.pack(len(plain) | _LZ4_STORED)
            out += plain
    out += _LZ4_BLOCK_SIZE.pack(0)
    return bytes(out)


def _lz4_block(plain: memoryview, level: int | None) -> memoryview:
    """Compresses one block. Java's default level 9 is its fast compressor; every other level is its slow one."""
    if level is None or level == _LZ4_FAST_LEVEL:
        return memoryview(cramjam.lz4.compress_block(plain, store_size=False))
    # Only cramjam's frames know levels, and the first block of a frame leans on no other.
    frame = memoryview(cramjam.lz4.compress(plain, level=min(max(level, _LZ4_HC_LEVELS[0]), _LZ4_HC_LEVELS[1])))
    at = len(_LZ4_HEADER) + (8 if frame[4] & _LZ4_HAS_SIZE else 0)
    (size,) = _LZ4_BLOCK_SIZE.unpack_from(frame, at)
    at += _LZ4_BLOCK_SIZE.size
    return frame[at : at + (size & ~_LZ4_STORED)]


def decompress(codec: int, data: Buffer, limit: int) -> memoryview:
    """The decompressed bytes, at most `limit`. Raises `TooLarge` before there are more of them, and `BadCompression`
    for data that is damaged."""
    view = memoryview(data)
    if codec == Codec.NONE:
        if len(view) > limit:
            raise TooLarge(f"{len(view)} bytes exceed the limit of {limit}")
        return view
    if codec == Codec.SNAPPY:
        return _decompress_snappy(view, limit)
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise BadCompression(f"unknown codec {codec}")
    if not view:
        raise BadCompression("no compressed bytes")
    return _inflate(inflate, view, limit)


def has_large_window(data: Buffer) -> bool:
    """Whether zstd has these bytes in memory twice while it decompresses them: in the result, and in its window."""
    return _ZSTD_LARGE_WINDOW.search(data) is not None


def _inflate_lz4(data: memoryview, out: bytearray | mmap) -> int:
    """Decompresses a large input frame by frame: cramjam copies the whole input of this codec."""
    if len(data) <= _COPIED:
        return cramjam.lz4.decompress_into(data, out)
    filled = 0
    with memoryview(out) as room:
        for frame in _lz4_frames(data):
            with room[filled:] as rest:
                filled += cramjam.lz4.decompress_into(frame, rest)
    return filled


def _lz4_frames(data: memoryview) -> Iterator[memoryview]:
    """Each frame. Bytes that are no frame, or a frame that is cut off, are left to the decoder, which refuses them."""
    begin = 0
    while begin < len(data):
        end = min(_lz4_frame_end(data, begin), len(data))
        yield data[begin:end]
        begin = end


def _lz4_frame_end(data: memoryview, begin: int) -> int:
    if data[begin : begin + 4] != _LZ4_HEADER[:4]:
        return len(data)
    try:
        flags = data[begin + 4]
        at = begin + len(_LZ4_HEADER)
        at += (8 if flags & _LZ4_HAS_SIZE else 0) + (4 if flags & _LZ4_HAS_DICTIONARY else 0)
        while True:
            (size,) = _LZ4_BLOCK_SIZE.unpack_from(data, at)
            at += _LZ4_BLOCK_SIZE.size
            if size == 0:
                return at + (4 if flags & _LZ4_HAS_CHECKSUM else 0)
            at += (size & ~_LZ4_STORED) + (4 if flags & _LZ4_CHECKED_BLOCKS else 0)
    except (IndexError, struct.error):
        return len(data)


_INFLATE: dict[int, Callable[[memoryview, bytearray | mmap], int]] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: _inflate_lz4,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def _inflate(inflate: Callable[[memoryview, bytearray | mmap], int], data: memoryview, limit: int) -> memoryview:
    """Decompresses into a buffer that grows until everything fits, because a declared size cannot be trusted."""
    size = min(limit, max(_FIRST_GUESS, _GROWTH * len(data)))
    while True:
        # Memory of the kernel is zeroed as it is written to: other threads go on while a large buffer is filled.
        out = bytearray(size) if size <= _PLAIN_BUFFER else mmap(-1, size)
        try:
            return memoryview(out)[: inflate(data, out)]
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise BadCompression(str(error)) from None
        if size == limit:
            raise TooLarge(f"{len(data)} compressed bytes inflate to more than {limit}")
        del out  # so that two sizes are never held at once
        size = min(limit, size * _GROWTH)


def _decompress_snappy(data: memoryview, limit: int) -> memoryview:
    """Java's chunked framing (several streams may follow each other), or one raw block as librdkafka sends it."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(data, limit)
    out = bytearray()
    pos, end = 0, len(data)
    while pos < end:
        if data[pos : pos + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            pos += len(_XERIAL_HEADER)
            if pos > end:
                raise BadCompression("a snappy stream header is cut off")
            continue
        if end - pos < _BLOCK_SIZE.size:
            raise BadCompression("a snappy chunk size is cut off")
        (size,) = _BLOCK_SIZE.unpack_from(data, pos)
        pos += _BLOCK_SIZE.size
        if not 0 <= size <= end - pos:
            raise BadCompression("a snappy chunk runs over the end")
        out += _snappy_block(data[pos : pos + size], limit - len(out))
        pos += size
    return memoryview(out)


# Two bytes of a snappy copy give at most 64 bytes: a block that declares more than this many times its size lies.
_SNAPPY_RATIO = 32


def _snappy_block(block: memoryview, room: int) -> memoryview:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > room:
            raise TooLarge(f"a snappy block of {size} bytes exceeds the {room} left")
        if size > _SNAPPY_RATIO * len(block):
            raise BadCompression(f"{len(block)} bytes of snappy cannot hold {size}")
        out = bytearray(size)
        return memoryview(out)[: cramjam.snappy.decompress_raw_into(block, out)]
    except cramjam.DecompressionError as error:
        raise BadCompression(str(error)) from None
