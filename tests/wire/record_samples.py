"""Record batches for tests: random records, and ways to damage bytes."""

from __future__ import annotations

from random import Random

from highwater.kernel import NewRecord

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
EXTREME_VARINTS = (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80", b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x7f")


def some_bytes(random: Random, most: int) -> bytes | None:
    return None if random.random() < 0.2 else random.randbytes(random.randrange(most))


def some_records(random: Random, count: int, timestamps: tuple[int, int] = (0, 2**41)) -> list[NewRecord]:
    names = ("a", "schlüssel", "h" * 70, "")
    return [
        (
            random.randint(*timestamps),
            some_bytes(random, 20),
            some_bytes(random, 300),
            [(random.choice(names), some_bytes(random, 9)) for _ in range(random.choice((0, 0, 1, 3)))],
        )
        for _ in range(count)
    ]


def damaged(random: Random, data: bytes) -> bytes:
    """A few bits, bytes or lengths changed, cut out or put in."""
    out = bytearray(data or b"\0")
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(out))
        kind = random.randrange(6)
        if kind == 0:
            out[at] = random.getrandbits(8)
        elif kind == 1:
            out[at] ^= 1 << random.randrange(8)
        elif kind == 2 and len(out) > 8:
            del out[at : at + random.randrange(1, 8)]
        elif kind == 3:
            out[at:at] = random.randbytes(random.randrange(1, 8))
        elif kind == 4:
            extreme = random.choice(EXTREME_VARINTS)
            out[at : at + len(extreme)] = extreme
        else:
            del out[at + 1 :]
    return bytes(out or b"\0")
