"""The response to a request that is decided in pieces, by a controller that stops being the active one meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from highwater.active_controller.pieces import decide_in_pieces
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.turns import Work
from highwater.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

TOPICS = ("a", "b", "c")


class Request:
    """It carries work out at once."""

    def __init__(self) -> None:
        self.responses: list[DeleteTopicsResponse] = []

    def carry_out(self, work: Work) -> None:
        for _ in work:
            """A turn of the loop."""

    def written(self, row: DeletableTopicResult) -> DeletableTopicResult:
        return row

    def respond(self, response: DeleteTopicsResponse) -> None:
        self.responses.append(response)


def result(topic: str, code: Code) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[DeletableTopicResult(name=topic, error_code=code)])


@pytest.mark.parametrize(
    ("active_for", "is_sent_elsewhere", "expected"),
    [
        (3, True, [[0, 0, 0]]),
        (1, True, [[0, 41, 41]]),  # elsewhere the first topic would not exist any more
        (0, True, []),
        (0, False, [[41, 41, 41]]),
    ],
)
def test_a_request_is_passed_on_only_if_no_piece_of_it_was_decided(
    active_for: int, is_sent_elsewhere: bool, expected: list[list[int]]
) -> None:
    request, left = Request(), iter([True] * active_for + [False] * 3)

    def decide(
        decision: Callable[[], DeleteTopicsResponse], answer: Callable[[DeleteTopicsResponse | None], None]
    ) -> None:
        answer(decision() if next(left) else None)

    work = decide_in_pieces(
        decide,
        cast(RequestContext, request),
        TOPICS,
        lambda topic: result(topic, Code.NONE),
        lambda topic: result(topic, Code.NOT_CONTROLLER),
        lambda: is_sent_elsewhere,
        DeleteTopicsResponse(),
        lambda response: response.responses,
    )
    request.carry_out(work)
    assert [[row.error_code for row in each.responses] for each in request.responses] == expected
