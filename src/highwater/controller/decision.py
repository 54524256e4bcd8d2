"""What a decision is: records to append as one batch, and the answer to give once they are committed."""

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
"""What one request of a client may write; Kafka's own bound."""

Authorize = Callable[[str, str, str], bool]
"""(operation, resource type, resource name) -> allowed"""

CLUSTER_NAME: Final = "kafka-cluster"

_MESSAGE_LENGTH: Final = 4096


def told(error: KafkaError) -> str:
    """The error's message for a response. It may quote what the client sent, which may leave no room in a string."""
    return error.message[:_MESSAGE_LENGTH]


def pieces_of(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """In their order, `size` of them at a time: what one request asks for may be decided by pieces."""
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
    """Why there is nothing to do, where the answer has room for the code alone: for whoever keeps a log."""
    why: str = ""
    """What led to the records, for the state-change log."""

    def __post_init__(self) -> None:
        """A refusal is told, not raised: its traceback would hold the frames that hold the decision, and the request
        with it, until garbage is collected."""
        if self.refusal is not None:
            self.refusal.__traceback__ = None


Deciding = Pieces[Decision[R]]
"""A decision that grows with what is asked for. The head image stays as it is until the end of it."""


class Randomness(Protocol):
    """What decisions need of a `random.Random`."""

    def randrange(self, start: int, /) -> int: ...

    def shuffle(self, x: list[int], /) -> None: ...

    def randbytes(self, n: int, /) -> bytes: ...
