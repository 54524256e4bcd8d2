"""The base of generated messages: converts bytes to values and back, in every version of a message. `Reader` and
`Writer` have the classic encodings; their flexible subclasses have the compact ones with tag sections (KIP-482). The
version of a message selects one of them, so the code of a message is the same for both."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

from highwater.wire.reader import MOST_OBJECTS, FlexibleReader, Malformed, Reader, Tag, TooMany
from highwater.wire.writer import FlexibleWriter, Writer

__all__ = [
    "FRESH",
    "NEVER_FLEXIBLE",
    "FlexibleReader",
    "FlexibleWriter",
    "Malformed",
    "Message",
    "Reader",
    "Struct",
    "Tag",
    "TooMany",
    "UnsupportedField",
    "Writer",
    "Written",
]

NEVER_FLEXIBLE: Final = 32767
FRESH: Final[Any] = object()
"""The default of array and struct arguments. It stands for a new value in each message, and differs from an explicit
null."""


class UnsupportedField(ValueError):
    """The version that is being written has no field for a value that was set."""

    def __init__(self, owner: object, field: str, version: int) -> None:
        super().__init__(f"{type(owner).__name__}.{field} cannot be written in version {version}")


class Struct:
    """A generated record of fields. Unlike a dataclass it costs nothing at import."""

    __slots__ = ("unknown_tags",)

    unknown_tags: tuple[Tag, ...]

    @classmethod
    def read(cls, r: Reader, version: int) -> Self:
        raise NotImplementedError

    def write(self, w: Writer, version: int) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in (*self.__slots__, "unknown_tags"))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = (*self.__slots__, "unknown_tags") if self.unknown_tags else self.__slots__
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


class Written(Struct):
    """An element that is already encoded, in the place of one that would be encoded with its message. The response to a
    request of many elements is made in pieces: the encoding at the end must not take all its time at once."""

    __slots__ = ("data",)

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = data
        self.unknown_tags = ()

    def write(self, w: Writer, version: int) -> None:
        w.buffer += self.data


class Message(Struct):
    """A generated request, response, header or record value, in all its versions."""

    __slots__ = ()

    API_KEY: ClassVar[int]
    """-1 where the definition has none."""
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int]
    """The first flexible version."""

    def encode(self, version: int) -> bytes:
        """The body alone, in `version`; raises UnsupportedField for what it cannot carry."""
        self._check(version)
        writer = FlexibleWriter() if version >= self.FLEXIBLE else Writer()
        self.write(writer, version)
        return bytes(writer.buffer)

    @classmethod
    def decode(cls, data: memoryview | bytes | bytearray, version: int, most: int = MOST_OBJECTS) -> Self:
        """Reads a body; bytes after it are ignored, as Kafka does. Raises Malformed; TooMany beyond `most` elements."""
        cls._check(version)
        reader = FlexibleReader if version >= cls.FLEXIBLE else Reader
        return cls.read(reader(data, 0, most), version)

    @classmethod
    def _check(cls, version: int) -> None:
        if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
            raise ValueError(f"{cls.__name__} has no version {version}")
