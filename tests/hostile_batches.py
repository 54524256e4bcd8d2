"""Record batches that a client must not get away with, the checksum right so that deeper checks are reached."""

from __future__ import annotations

from random import Random
from typing import Any

from highwater.wire.records import build
from highwater.wire.records import header as layout
from highwater.wire.records.header import HEADER, HEADER_SIZE, read_header
from tests.mutation import INT32_EXTREMES
from tests.wire.record_samples import damaged, some_records

FIELDS = {
    "base_offset": 8, "length": 4, "leader_epoch": 4, "magic": 1, "attributes": 2, "last_offset_delta": 4,
    "base_timestamp": 8, "max_timestamp": 8, "producer_id": 8, "producer_epoch": 2, "base_sequence": 4,
    "record_count": 4,
}  # fmt: skip
"""Of a batch header: its sizes in bytes, but for the checksum."""


def good_batch(codec: int = 0, count: int = 3) -> bytearray:
    random = Random(count)
    return build(some_records(random, count, (1_700_000_000_000, 1_700_000_001_000)), codec=codec)


def with_header(batch: bytes | bytearray, *, seal: bool = True, **fields: Any) -> bytes:
    """The batch with other header fields; its length is kept as given, its checksum made right."""
    out = bytearray(batch)
    HEADER.pack_into(out, 0, *read_header(out)._replace(**fields))
    return with_checksum(out) if seal else bytes(out)


def with_checksum(batch: bytearray) -> bytes:
    length = batch[layout.LENGTH_AT : layout.LENGTH_PREFIX]
    if len(batch) > HEADER_SIZE:
        layout.seal(batch, 0, len(batch))
    batch[layout.LENGTH_AT : layout.LENGTH_PREFIX] = length
    return bytes(batch)


def hostile_batch(random: Random) -> bytes:
    """A batch with a wrong header field, wrong records, compressed garbage, or cut or doubled; some are whole."""
    batch = good_batch(random.randrange(5), random.choice((1, 3, 20)))
    kind = random.randrange(7)
    if kind == 0:
        return bytes(batch)
    if kind in (1, 2):
        name, size = random.choice(list(FIELDS.items()))
        top = 1 << 8 * size - 1
        value = random.choice((-top, top - 1, *(each for each in INT32_EXTREMES if -top <= each < top)))
        return with_header(batch, seal=random.random() < 0.8, **{name: value})
    if kind == 3:
        batch[HEADER_SIZE:] = damaged(random, bytes(batch[HEADER_SIZE:]))
        layout.seal(batch, 0, len(batch))
        return bytes(batch)
    if kind == 4:
        batch[HEADER_SIZE:] = random.randbytes(random.choice((1, 30, 300)))
        layout.seal(batch, 0, len(batch))
        return bytes(batch)
    if kind == 5:
        return bytes(batch * 2) if random.random() < 0.3 else bytes(batch[: random.randrange(len(batch))])
    return damaged(random, bytes(batch))
