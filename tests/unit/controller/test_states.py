from __future__ import annotations

import pytest

from highwater.controller.states import BrokerState, next_state

FENCED, UNFENCED, LEAVING, SHUTDOWN = BrokerState


@pytest.mark.parametrize(
    ("current", "true", "state"),
    [
        (FENCED, "", FENCED),
        (FENCED, "caught_up", UNFENCED),
        (FENCED, "caught_up want_fence", FENCED),
        (FENCED, "caught_up want_shutdown", SHUTDOWN),
        (FENCED, "want_shutdown want_fence", SHUTDOWN),
        (UNFENCED, "", UNFENCED),
        (UNFENCED, "caught_up leads", UNFENCED),
        (UNFENCED, "want_fence", FENCED),
        (UNFENCED, "want_shutdown", SHUTDOWN),
        (UNFENCED, "want_shutdown leads", LEAVING),
        (UNFENCED, "want_shutdown leads want_fence", SHUTDOWN),
        (LEAVING, "want_shutdown", LEAVING),
        (LEAVING, "want_shutdown leads others_know", LEAVING),
        (LEAVING, "want_shutdown others_know", SHUTDOWN),
        (LEAVING, "want_fence", LEAVING),
    ],
)
def test_a_heartbeat_leads_from_state_to_state(current: BrokerState, true: str, state: BrokerState) -> None:
    names = ("want_fence", "want_shutdown", "caught_up", "leads", "others_know")
    assert next_state(current, **{name: name in true.split() for name in names}) is state
