"""Fresh ids."""

from __future__ import annotations

from random import Random
from uuid import RFC_4122, UUID

from highwater.controller.identity import fresh_uuid


class Given:
    """These bytes, one after the other."""

    def __init__(self, *found: bytes) -> None:
        self._found = list(found)

    def randbytes(self, n: int) -> bytes:
        assert n == 16
        return self._found.pop(0)


def test_a_fresh_id_is_a_random_uuid_with_all_the_bits_that_are_left_to_chance() -> None:
    random = Random(1)
    ids = [fresh_uuid(random) for _ in range(200)]
    assert {(UUID(bytes=bytes(each)).version, UUID(bytes=bytes(each)).variant) for each in ids} == {(4, RFC_4122)}
    seen = [0] * 16
    missed = [0] * 16
    for each in ids:
        for at, byte in enumerate(each):
            seen[at] |= byte
            missed[at] |= ~byte & 0xFF
    assert seen == [0xFF] * 6 + [0x4F] + [0xFF] + [0xBF] + [0xFF] * 7
    assert missed == [0xFF] * 6 + [0xBF] + [0xFF] + [0x7F] + [0xFF] * 7


def test_no_id_begins_with_a_dash_as_text() -> None:
    dash = bytes([0b11111000]) + bytes(15)
    fine = bytes([0b11111100]) + bytes(15)
    assert fresh_uuid(Given(dash, dash, fine))[0] == fine[0]  # type: ignore[arg-type]
