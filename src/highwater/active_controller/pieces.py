"""Requests that name many things: decided piece by piece, each in a turn of its own, and answered as one."""

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
    whole: R,
    rows: Callable[[R], list[S]],
) -> Work:
    """`decide` is the controller's, for what is decided at once or for what takes long. `whole` is the answer: it gets
    the rows of the pieces' answers in the pieces' order, once all of it is committed. `refused` words the answer for a
    piece that came to a controller that is active no longer."""
    decided: dict[int, R] = {}

    def take(at: int, piece: P) -> None:
        def answer(response: R | None) -> None:
            decided[at] = refused(piece) if response is None else response
            if len(decided) == len(pieces):
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
