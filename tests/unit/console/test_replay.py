"""Ranges to replay, as the page sends them."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.console.given import BadQuestion
from highwater.console.replay import MOST_OFFSETS, Range, replay_command

ORDER = {"to": "copy", "partition": "0", "from": "9007199254740993", "until": "9007199254740995"}


def test_offsets_of_64_bits_stay_what_they_are() -> None:
    wanted = Range.of("t", ORDER)
    assert (wanted.start, wanted.end) == (9007199254740993, 9007199254740995)
    assert "--offset 9007199254740993 --max-messages 2 " in replay_command("h:9", wanted)


@pytest.mark.parametrize(
    "change",
    [
        {"to": "t"},
        {"to": ""},
        {"to": None},
        {"from": 5},
        {"from": "-1"},
        {"until": "9007199254740993"},
        {"until": str(9007199254740993 + MOST_OFFSETS + 1)},
        {"partition": "x"},
    ],
)
def test_what_is_no_range_into_another_topic_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadQuestion):
        Range.of("t", {**ORDER, **change})
