"""Run as a program: meets a decompression bomb in each codec and prints by how many bytes memory grew at its peak."""

from __future__ import annotations

import sys
from pathlib import Path

from highwater.wire.compression import Codec, TooLarge, compress, decompress

PART = 64 << 20
PARTS = 32
"""Streams one after the other: together they inflate to two gigabytes."""


def zstd_of_runs(window_log: int, blocks: int = 16_384) -> bytes:
    """One zstd frame of run-length blocks of 128 KiB each: 16 384 are two gigabytes in 64 KiB."""
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd" + bytes([0, (window_log - 10) << 3]) + block * blocks + (1).to_bytes(3, "little")


def bomb(name: str) -> tuple[Codec, bytes]:
    if name.startswith("zstd"):
        return Codec.ZSTD, zstd_of_runs(27 if name == "zstd-window" else 17)
    codec = Codec[name.upper()]
    if codec is Codec.SNAPPY:  # at most 32 times its size: a bomb that would not be one in full
        return codec, bytes(compress(codec, bytes(PART)))
    return codec, bytes(compress(codec, bytes(PART))) * PARTS


def status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main(limit: int) -> None:
    for name in ("gzip", "snappy", "lz4", "zstd", "zstd-window"):
        codec, packed = bomb(name)
        Path("/proc/self/clear_refs").write_text("5")
        before = status("VmRSS")
        try:
            decompress(codec, packed, limit)
        except TooLarge:
            print(name, status("VmHWM") - before)


if __name__ == "__main__":
    main(int(sys.argv[1]))
