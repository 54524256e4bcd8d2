"""Rows per second of the record kernel, pure Python beside Cython: `python bench/kernel.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from highwater.kernel import pure
from highwater.kernel.contract import Section, Wanted
from highwater.wire.records import Rules, build, read_header, section, validate_append

try:
    from highwater.kernel import _fast
except ImportError:
    _fast = None

ROWS = 9_000
SECONDS = 1.0
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def rate(work: Callable[[], object], rows: int) -> float:
    """Rows per second of the fastest run within the time given."""
    best = float("inf")
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return rows / best


def report(name: str, work: Callable[[Any], object], rows: int) -> None:
    figures = [rate(lambda: work(pure), rows), rate(lambda: work(_fast), rows) if _fast else 0.0]
    print(f"{name:<34} pure {figures[0] / 1e6:8.3f} M/s   cython {figures[1] / 1e6:8.2f} M/s")


def main() -> None:
    value = bytes(range(97, 122)) * 4
    plain = [(1_000 + i, None, value, ()) for i in range(ROWS)]
    keyed = [(1_000 + i, b"key-%d" % i, value, (("trace", b"abcdef"),)) for i in range(ROWS)]
    batches: dict[str, bytearray] = {"100 B": build(plain), "100 B, key, header": build(keyed)}
    sections: dict[str, Section] = {name: inflated(batch) for name, batch in batches.items()}
    wide = Wanted(headers=True)
    for name, one in sections.items():
        report(f"validate   {name}", lambda k, s=one: k.validate_records(s, 0, 2**62, False), ROWS)
        report(f"columns    {name}", lambda k, s=one: list(k.columns([s] * 10, wide)), ROWS * 10)
        report(f"iterate    {name}", lambda k, s=one: k.iterate(s), ROWS)
    report("encode     100 B", lambda k: k.encode(plain, 1_000, None, 61), ROWS)
    for codec, name in CODECS.items():
        batch = build(keyed, codec=codec)
        report(
            f"inflate and validate {name}", lambda k, b=batch: k.validate_records(inflated(b), 0, 2**62, False), ROWS
        )
    single = [bytes(build(plain[:1])) for _ in range(100)]
    print(f"{'validate_append, one record':<34} {rate(lambda: appended(single), len(single)) / 1e6:8.3f} M/s")


def inflated(batch: bytearray) -> Section:
    return section(read_header(batch), batch)


def appended(batches: list[bytes]) -> None:
    rules = Rules()
    for batch in batches:
        validate_append(batch, rules, 2_000)


if __name__ == "__main__":
    main()
