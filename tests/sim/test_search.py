"""Small scopes, searched exhaustively or as far as the time of a test goes. `highwater sim --search` goes further."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.sim.search import exploring
from highwater.sim.search.exploring import explore
from highwater.sim.search.scope import SCOPES
from highwater.sim.search.steps import Steps
from highwater.sim.search.story import sentences

STATES = {
    "pair": 10_000,
    "pair-stale": 10_000,
    "pair-joining": 6_000,
    "pair-parted": 6_000,
    "pair-flush": 24_000,
    "pair-damage": 10_000,
    "pair-min-two": 6_000,
    "pair-power": 10_000,
    "pair-unclean": 6_000,
    "pair-delete": 4_000,
    "pair-eligible": 9_000,
    "pair-repeated": 6_000,
    "three-cold": 2_000,
    "pair-forked": 10_000,
    "pair-crossed": 3_000,
    "three": 4_000,
}


def test_every_scope_is_searched() -> None:
    assert list(STATES) == list(SCOPES)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCOPES)
def test_no_order_of_events_breaks_a_promise(name: str) -> None:
    found = explore(SCOPES[name], STATES[name])
    assert found.violation is None, "\n".join(sentences(found))
    assert found.is_whole or found.states == STATES[name]


def test_a_scope_without_faults_is_searched_whole_and_ends_in_order() -> None:
    found = explore(replace(SCOPES["pair"], budget=0), heal_every=1)
    assert (found.violation, found.is_whole) == (None, True)
    assert found.healed == found.states - 1 > 10


def test_the_same_search_visits_the_same_states() -> None:
    first, second = (explore(SCOPES["pair-damage"], 1_000) for _ in range(2))
    assert (first.states, first.depth, first.healed) == (second.states, second.depth, second.healed)


def test_the_story_of_a_scope_begins_with_its_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "broken", lambda state: "all is lost")
    lines = list(sentences(explore(SCOPES["pair-repeated"])))
    assert lines[:4] == [
        "In the beginning: 1 leads in epoch 0, ISR 1.",
        "  1. A fetch of broker 2 arrives at broker 1.",
        "  2. Leader 1 loses its connection with the controller, and asks again on another.",
        "  3. A client writes batch a to broker 1, which ends at 1.",
    ]


def test_a_counterexample_is_a_shortest_story_that_a_person_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client gets an acknowledgement for a record that its leader alone has."""

    def hasty(self: Steps, state: object, action: object) -> None:
        written(self, state, action)  # type: ignore[arg-type]
        node = state.nodes[action.node]  # type: ignore[attr-defined]
        if node.log.batches[-1] not in state.acked:  # type: ignore[attr-defined]
            self._acknowledge(state, node.log.batches[-1])  # type: ignore[arg-type]

    written = Steps._do_write
    monkeypatch.setattr(Steps, "_do_write", hasty)
    found = explore(SCOPES["pair"], 1_000)
    assert list(sentences(found)) == [
        "In the beginning: 1 leads in epoch 0, ISR 1,2.",
        "  1. A client writes batch a to broker 1, which ends at 1. a is acknowledged.",
        "     Then a was acknowledged, and broker 2, which may lead, does not have it.",
        "     broker 1: 0:a(epoch 0), high watermark 0",
        "     broker 2: (empty), high watermark 0",
    ]
