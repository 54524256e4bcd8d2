"""Damaged requests through the decoders that a node registers: a value or Malformed, and nothing else.

`tests/cluster/test_hostile_input.py` sends the same kinds of damage through the sockets of a running node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from random import Random
from time import thread_time

import pytest

from highwater.wire.codec import Malformed, Message, Struct
from tests.mutation import mutated
from tests.subjects import Subject, advertised
from tests.wire.allocation import most_held
from tests.wire.specimens import specimen

SUBJECTS = [subject for subject in advertised() if subject.is_handled]
MUTATIONS = 1_600
SAMPLES = 24
SECONDS = 10.0
"""For what takes 0.1: a decoder that can be made to loop exceeds it, a busy machine does not."""


def mutations(subject: Subject, count: int = MUTATIONS) -> list[bytes]:
    random = Random(subject.name)
    samples = subject.samples(random, SAMPLES)
    others = subject.across_versions(random)
    return [mutated(random, random.choice(samples), others) for _ in range(count)]


def read(decode: Callable[[memoryview, int], object], body: bytes, subject: Subject) -> object | None:
    """What the decoder makes of it, None where it refuses; anything else that it raises fails the test."""
    try:
        return decode(memoryview(body), subject.version)
    except Malformed:
        return None
    except Exception as escaped:
        raise AssertionError(f"{subject.name} let {escaped!r} escape for {body.hex()}") from escaped


def test_there_are_two_hundred_thousand_mutations_and_five_hundred_per_version() -> None:
    assert MUTATIONS * len(SUBJECTS) >= 200_000
    assert MUTATIONS >= 500


@pytest.mark.parametrize("subject", SUBJECTS, ids=[subject.name for subject in SUBJECTS])
def test_a_damaged_request_is_read_or_malformed(subject: Subject) -> None:
    bodies = mutations(subject)
    began = thread_time()
    outcomes = [read(subject.decode, body, subject) is not None for body in bodies]
    assert thread_time() - began < SECONDS
    if subject.api.request.encode(subject.api.request(), subject.version):  # the first ApiVersions have no body
        assert 0 < sum(outcomes) < len(outcomes), "damage that never or always matters tests nothing"


@pytest.mark.parametrize("subject", SUBJECTS, ids=[subject.name for subject in SUBJECTS])
def test_a_decoded_request_is_the_same_after_encoding_and_decoding_again(subject: Subject) -> None:
    """So whatever a broker accepts from a client it can pass on to the controller."""
    message = subject.api.request
    for body in mutations(subject, MUTATIONS // 4):
        value = read(message.decode, body, subject)
        if isinstance(value, Message):
            _order_tags(value)
            assert message.decode(value.encode(subject.version), subject.version) == value, body.hex()


def _order_tags(value: object) -> None:
    """Tags are written in their order, in whichever they came."""
    if isinstance(value, list):
        for element in value:
            _order_tags(element)
    elif isinstance(value, Struct):
        value.unknown_tags = tuple(sorted(value.unknown_tags, key=itemgetter(0)))
        for name in value.__slots__:
            _order_tags(getattr(value, name))


FLAT = [subject for subject in SUBJECTS if subject.api.decode is not None]


@pytest.mark.parametrize("subject", FLAT, ids=[subject.name for subject in FLAT])
def test_the_fast_decoders_refuse_what_the_generated_ones_refuse(subject: Subject) -> None:
    for body in mutations(subject):
        fast = read(subject.decode, body, subject) is not None
        assert fast == (read(subject.api.request.decode, body, subject) is not None), body.hex()


NEWEST = list({each.api.key: each for each in SUBJECTS if each.version == each.api.versions[1]}.values())
ELEMENTS = 30_000
PER_BYTE = 30
"""Memory that a byte of a request may become: an element or a tag is charged as eight bytes and takes 60 to 200."""


@pytest.mark.parametrize("subject", NEWEST, ids=[subject.name for subject in NEWEST])
def test_no_array_turns_a_small_request_into_much_memory(subject: Subject) -> None:
    """Every array in turn holds very many of the smallest elements that there are."""
    random = Random(subject.name)
    message = max(
        (specimen(subject.api.request, subject.version, random) for _ in range(30)),
        key=lambda each: len(list(_arrays(each))),
    )
    for owner, name, element in _arrays(message):
        kept = getattr(owner, name)
        setattr(owner, name, [element] * ELEMENTS if isinstance(kept, list) else (element,) * ELEMENTS)
        body = message.encode(subject.version)
        setattr(owner, name, kept)
        bound = PER_BYTE * len(body)
        peak = most_held(partial(read, subject.decode, body, subject), bound)
        assert peak < bound, f"{name}: {len(body)} bytes became {peak}"


def _arrays(value: Struct) -> Iterator[tuple[Struct, str, object]]:
    """Every array and tag section that has an element to take the place of: its owner, name and smallest element."""
    for name in (*value.__slots__, "unknown_tags"):
        held = getattr(value, name)
        if isinstance(held, Struct):
            yield from _arrays(held)
        elif isinstance(held, list | tuple) and held:
            yield value, name, (7, b"") if name == "unknown_tags" else _smallest(held[0])
            for element in held[:1]:
                if isinstance(element, Struct):
                    yield from _arrays(element)


def _smallest(element: object) -> object:
    return bytes(16) if isinstance(element, bytes) else type(element)()
