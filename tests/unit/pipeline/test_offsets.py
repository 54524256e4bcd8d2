"""What lies in Spark's checkpoint can be read again, also by a later version and from another connector's."""

from __future__ import annotations

import json

import pytest

from highwater.model import TopicPartition
from highwater.pipeline.offsets import INITIAL, Position, Positions, is_initial

P0, P10 = TopicPartition("orders", 0), TopicPartition("orders", 10)
KNOWN = Positions({"orders": "sCllLgrsSZaqywI2H0RmRQ"}, {P10: Position(7, 3), P0: Position(5, -1)})


def test_offsets_survive_spark_s_json() -> None:
    again = Positions.from_json(json.loads(json.dumps(KNOWN.to_json())))
    assert again == KNOWN


def test_the_form_in_the_checkpoint_stays_as_it_is() -> None:
    assert KNOWN.to_json() == {
        "version": 1,
        "topics": {
            "orders": {"id": "sCllLgrsSZaqywI2H0RmRQ", "offsets": {"0": 5, "10": 7}, "epochs": {"0": -1, "10": 3}}
        },
    }


def test_a_checkpoint_of_spark_s_own_connector_is_understood() -> None:
    assert Positions.from_json({"orders": {"0": 5}}) == Positions({}, {P0: Position(5)})


@pytest.mark.parametrize("stored", [{"version": 2}, {"version": 1}, {"orders": 5}, {"version": 1, "topics": {"a": {}}}])
def test_stored_offsets_that_are_not_understood_are_refused_and_quoted(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not an offset of this source"):
        Positions.from_json(stored)


def test_the_marker_before_the_first_batch_is_one_constant() -> None:
    assert is_initial(json.loads(json.dumps(INITIAL)))
    assert not is_initial(KNOWN.to_json())
