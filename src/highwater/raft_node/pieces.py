"""Requests that name many things: decided piece by piece, each in a turn of its own, and answered as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.controller.decision import Decision
from highwater.net.context import RequestContext
from highwater.net.turns import Work
from highwater.raft_node.active import ActiveController
from highwater.wire.codec import Message, Struct

P = TypeVar("P")
R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Struct)


def decide_in_pieces(
    controller: ActiveController,
    ctx: RequestContext,
    pieces: Sequence[P],
    decide: Callable[[P], Decision[R]],
    refused: Callable[[P], R],
    whole: R,
    rows: Callable[[R], list[S]],
) -> Work:
    """`whole` is the answer: it gets the rows of the pieces' answers in the pieces' order, once all of it is committed.
    `refused` words the answer for a piece that came to a controller that is active no longer."""
    decided: dict[int, R] = {}

    def take(at: int, piece: P) -> None:
        def answer(response: R | None) -> None:
            decided[at] = refused(piece) if response is None else response
            if len(decided) == len(pieces):
                ctx.carry_out(respond())

        controller.decide(lambda: decide(piece), answer)

    def respond() -> Work:
        for at in range(len(pieces)):
            for row in rows(decided[at]):
                rows(whole).append(ctx.written(row))
                yield None
        ctx.respond(whole)

    for at, piece in enumerate(pieces):
        take(at, piece)
        yield None
