"""New ids, made as in Kafka."""

from __future__ import annotations

from highwater.controller.decision import Randomness
from highwater.model import Uuid


def fresh_uuid(random: Randomness) -> Uuid:
    """A random UUID (version 4). Its text does not begin with a dash, because tools would take it for an option."""
    while True:
        raw = bytearray(random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != 0b111110:
            return Uuid(bytes(raw))
