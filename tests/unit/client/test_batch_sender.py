from __future__ import annotations

import pytest

from highwater.client.batch_sender import BatchSender
from highwater.client.client import Client


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"acks": 0}, "acks is 0: it must be all"),
        ({"acks": 1}, "acks must be all for the idempotent producer"),
        ({"max_in_flight": 6}, "max_in_flight is 6: it must be 1 to 5"),
    ],
)
def test_settings_under_which_batches_could_be_lost_or_change_places_are_refused(
    settings: dict[str, int], reason: str
) -> None:
    with Client("127.0.0.1:1") as client, pytest.raises(ValueError, match=reason):
        BatchSender(client, **settings)  # type: ignore[arg-type]
