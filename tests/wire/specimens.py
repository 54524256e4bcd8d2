"""Random messages of any class and version: the class's own reader, reading from chance instead of bytes."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from highwater.model import Uuid
from highwater.wire.codec import Malformed, Message, Reader, Struct, Tag

M = TypeVar("M", bound=Message)
TEXTS = ("", "a", "topic-1", "größer", "주제", "x" * 200)


class _Chance(Reader):
    """Answers every question of a message's reader with a random value of the right kind."""

    __slots__ = ("_pending", "flexible", "foreign", "random", "tag_chance", "tame")

    def __init__(self, random: Random, flexible: bool, tame: bool, foreign: bool) -> None:
        super().__init__(b"")
        self.random = random
        self.flexible = flexible
        self.tame = tame
        self.foreign = foreign
        self.tag_chance = random.choice((0, 0.1, 0.8))
        self._pending: list[int] = []

    def int8(self) -> int:
        return self._integer(8, 1)

    def boolean(self) -> bool:
        return self.random.random() < 0.5

    def int16(self) -> int:
        return self._integer(16, 100)

    def int32(self) -> int:
        return self._integer(32, 1 << 30)

    def int64(self) -> int:
        return self._integer(64, 1 << 40)

    def float64(self) -> float:
        return self.random.uniform(-1e9, 1e9)

    def uuid(self) -> Uuid:
        return Uuid(self.random.randbytes(16))

    def string(self) -> str:
        return self.random.choice(TEXTS)

    def classic_nullable_string(self) -> str | None:
        return self.nullable_string()

    def nullable_string(self) -> str | None:
        return self.random.choice((None, *TEXTS))

    def blob(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 20, 200)))

    def nullable_blob(self) -> bytes | None:
        return None if self.random.random() < 0.3 else self.blob()

    def records(self) -> memoryview:
        return memoryview(self.blob())

    def nullable_records(self) -> memoryview | None:
        return None if self.random.random() < 0.3 else self.records()

    def count(self, size: int, weight: int = 1) -> int:
        return self.random.choice((0, 1, 1, 2, 3))

    def nullable_count(self, size: int, weight: int = 1) -> int:
        return self.random.choice((-1, 0, 1, 2))

    def present(self) -> bool:
        return self.boolean()

    def present_tagged(self) -> bool:
        return self.boolean()

    def integers(self, count: int, size: int) -> list[int]:
        return [self._integer(8 * size, 1 << (8 * size - 2)) for _ in range(count)]

    def tags(self) -> tuple[Tag, ...]:
        unknown = self.flexible and self.foreign and self.random.random() < 0.2
        return ((7, self.blob()), (300, self.blob())) if unknown else ()

    def tag_count(self) -> int:
        """Offers tags from 0 upwards; those that the class does not know are foreign ones."""
        tags = [tag for tag in range(6) if self.random.random() < self.tag_chance] if self.flexible else []
        for tag in reversed(tags):
            self._pending += (self.random.randrange(20), tag)
        return len(tags)

    def uvarint(self) -> int:
        return self._pending.pop()

    def raw(self, length: int) -> bytes:
        return self.random.randbytes(length)

    def _integer(self, bits: int, tame_limit: int) -> int:
        if self.tame:
            return self.random.randint(0, tame_limit)
        return self.random.choice((-1, 0, 1, self.random.randint(-(1 << bits - 1), (1 << bits - 1) - 1)))


def specimen(cls: type[M], version: int, random: Random, *, tame: bool = False, foreign: bool = True) -> M:
    """A random message that `version` can carry. Tame: small numbers, as of error codes and times; foreign: with tags
    that the class does not know."""
    for _ in range(100):
        try:
            message = cls.read(_Chance(random, version >= cls.FLEXIBLE, tame, foreign), version)
        except Malformed:  # a tag of a later version was offered
            continue
        if not foreign:
            _forget_unknown_tags(message)
        return message
    raise AssertionError(f"no specimen of {cls.__name__} version {version}")


def _forget_unknown_tags(value: object) -> None:
    if isinstance(value, list):
        for element in value:
            _forget_unknown_tags(element)
    elif isinstance(value, Struct):
        value.unknown_tags = ()
        for name in value.__slots__:
            _forget_unknown_tags(getattr(value, name))
