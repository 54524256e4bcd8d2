"""A decision: records to append as one batch, and the response to send once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from highwater.errors import KafkaError
from highwater.metadata.pieces import Pieces
from highwater.wire.codec import Message

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

MAX_RECORDS: Final = 10_000
"""The most records that one request of a client may write, as in Kafka."""

Authorize = Callable[[str, str, str], bool]
"""(operation, resource type, resource name) -> allowed"""

CLUSTER_NAME: Final = "kafka-cluster"

_MESSAGE_LENGTH: Final = 4096


def error_message(error: KafkaError) -> str:
    """The error's message for a response. It is cut, since it may quote what the client sent, of any length."""
    return error.message[:_MESSAGE_LENGTH]


def pieces_of(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """Splits `things` into lists of `size`, in their order. A large request is decided in such pieces."""
    rest = iter(things)
    while piece := list(islice(rest, size)):
        yield piece


def allow_all(operation: str, resource: str, name: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Decision(Generic[R_co]):
    response: R_co
    records: Sequence[Message] = ()
    refusal: KafkaError | None = None
    """The reason of a refusal, for the log: the response has room for the error code only."""
    why: str = ""
    """The reason for the records, for the state-change log."""

    def __post_init__(self) -> None:
        """The refusal is reported, not raised. Its traceback would keep the frames alive that hold the decision and the
        request, until the next garbage collection."""
        if self.refusal is not None:
            self.refusal.__traceback__ = None


Deciding = Pieces[Decision[R]]
"""A decision that is made in pieces, because it grows with the request. The head image stays the same meanwhile."""


class Randomness(Protocol):
    """The part of `random.Random` that decisions use."""

    def randrange(self, start: int, /) -> int: ...

    def shuffle(self, x: list[int], /) -> None: ...

    def randbytes(self, n: int, /) -> bytes: ...
