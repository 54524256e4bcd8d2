"""Large requests are decided piece by piece, each in a turn of its own, and get one response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.net.context import RequestContext
from highwater.net.turns import Work
from highwater.wire.codec import Message, Struct

D = TypeVar("D")
P = TypeVar("P")
R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Struct)


def decide_in_pieces(
    decide: Callable[[Callable[[], D], Callable[[R | None], None]], None],
    ctx: RequestContext,
    pieces: Sequence[P],
    decision: Callable[[P], D],
    refused: Callable[[P], R],
    sends_elsewhere: Callable[[], bool],
    whole: R,
    rows: Callable[[R], list[S]],
) -> Work:
    """`decide` is `ActiveController.decide` or `ActiveController.deliberate`. `whole` is the response: it gets the rows
    of all pieces in their order, when all are committed. `refused` makes the response for a piece that this controller
    did not decide because it is no longer active. If it decided none of them, `sends_elsewhere` is asked first: whether
    the whole request was passed on to another controller."""
    decided: dict[int, R] = {}
    undecided = 0

    def take(at: int, piece: P) -> None:
        def answer(response: R | None) -> None:
            nonlocal undecided
            undecided += response is None
            decided[at] = refused(piece) if response is None else response
            if len(decided) == len(pieces) and not (undecided == len(pieces) and sends_elsewhere()):
                ctx.carry_out(respond())

        decide(lambda: decision(piece), answer)

    def respond() -> Work:
        for at in range(len(pieces)):
            for row in rows(decided[at]):
                rows(whole).append(ctx.written(row))
                yield None
        ctx.respond(whole)

    for at, piece in enumerate(pieces):
        take(at, piece)
        yield None
