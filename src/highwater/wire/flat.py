"""Steps that the hand-written codecs of Produce and Fetch share. In generated decoders most of the time goes into one
method call per field. Hand-written decoders keep their position in a local variable, and decode one-byte lengths in
place; these functions do the rest."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Final

from highwater.model import Uuid
from highwater.wire.reader import MAX_STRING, FlexibleReader, Malformed, TooMany
from highwater.wire.writer import FlexibleWriter, Writer

NodeEndpoint = tuple[int, str, int, str | None]
"""(node id, host, port, rack) of a leader that a response names (KIP-951)"""

ENDED: Final = (IndexError, LayoutError)
"""The exceptions of a read beyond the end; decoders convert them to Malformed."""


_tagged_leader = Layout(">bbiib")


def uvarint(data: memoryview, pos: int) -> tuple[int, int]:
    """The value at `pos`, which has two or more bytes, and the position after it."""
    low, high = data[pos] & 0x7F, data[pos + 1]
    if high < 0x80:
        return low | high << 7, pos + 2
    r = FlexibleReader(data, pos)
    return r.uvarint(), r.pos


def count(data: memoryview, pos: int, smallest: int) -> tuple[int, int]:
    """The length of a compact array whose elements take at least `smallest` bytes, and the position after it."""
    length = data[pos]
    pos += 1
    if length >= 0x80:
        length, pos = uvarint(data, pos - 1)
    if length == 0:
        raise Malformed("null where an array is required")
    if (length - 1) * smallest > len(data) - pos:
        raise Malformed(f"{length - 1} elements announced, {len(data) - pos} bytes remain")
    return length - 1, pos


def string(data: memoryview, pos: int) -> tuple[str, int]:
    """A compact string and the position after it."""
    length = data[pos]
    pos += 1
    if length >= 0x80:
        length, pos = uvarint(data, pos - 1)
    end = pos + length - 1
    if end < pos or end > len(data) or length > MAX_STRING + 1:
        raise Malformed(f"a string of {length - 1} bytes, {len(data) - pos} remain")
    try:
        return str(data[pos:end], "utf-8"), end
    except UnicodeDecodeError:
        raise Malformed("a string that is not UTF-8") from None


def skip_tags(data: memoryview, pos: int, budget: int) -> tuple[int, int]:
    """Skips a tag section. Returns the position after it, and what is left of the budget of objects."""
    if data[pos] == 0:
        return pos + 1, budget
    r = FlexibleReader(data, pos)
    r.budget = budget
    r.skip_tags()
    return r.pos, r.budget


def write_topic(w: Writer, topic: str | Uuid) -> None:
    """The name of a topic, or its id in versions with topic ids."""
    if isinstance(topic, str):
        w.string(topic)
    else:
        w.uuid(topic)


def leader_tag(tag: int, leader: tuple[int, int]) -> bytes:
    """(id, epoch) as a tagged field."""
    return _tagged_leader.pack(tag, 9, *leader, 0)


def endpoint_tag(endpoints: Sequence[NodeEndpoint]) -> Sequence[tuple[int, Writer]]:
    """The tag with the addresses of the leaders that a response names."""
    if not endpoints:
        return ()
    w = FlexibleWriter()
    w.count(len(endpoints))
    for node_id, host, port, rack in endpoints:
        w.int32(node_id)
        w.string(host)
        w.int32(port)
        w.nullable_string(rack)
        w.tags(())
    return ((0, w),)


def charge(budget: int, objects: int) -> int:
    """What is left of the budget of objects."""
    if objects > budget:
        raise TooMany
    return budget - objects
