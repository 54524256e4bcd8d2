"""The lag of groups, as their coordinator reports it: from the leaders, when somebody looks, and not too often."""

from __future__ import annotations

import pytest

from highwater.broker import lags
from highwater.broker.lags import ANSWER_SECONDS, REFRESH_SECONDS, GroupLags
from highwater.model import TopicPartition
from highwater.net.metrics import Family, gauge, labels
from highwater.sim.group_client import GroupClient
from highwater.sim.world import SimWorld
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.turns import MOST_CALLS, counted_turns

OFFSETS = TopicPartition("__consumer_offsets", 0)
OTHER = TopicPartition(ORDERS.topic, 1)
Lags = dict[str, dict[str, float]]


class Watcher:
    """Looks at the metrics of n3, which coordinates all groups and leads nothing else."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        broker = stage.node("n3").broker
        assert broker is not None
        self._lags = GroupLags(broker)
        assert isinstance(broker.world, SimWorld)
        self._world = broker.world

    def look(self, rows: bool = True) -> Lags:
        """Each family, by what is left of its labels without the group's name; or the sums alone."""
        families, ready = self._lags.collect(), list[bool]()
        wait = next(families)
        assert not isinstance(wait, Family)
        self._world.call(wait, lambda: ready.append(True))
        self._stage.until(lambda: ready)
        found: Lags = {}
        for family in families:
            assert isinstance(family, Family)
            short = family.name.removeprefix("kafka_consumergroup_")
            if not rows and not short.endswith("_sum"):
                continue
            found[short] = {
                labels.replace('consumergroup="g"', "").strip("{,}"): value for labels, value in family.rows
            }
        return found


def staged(stage: Stage) -> Watcher:
    stage.create(OTHER, replicas=(2,))
    stage.create(OFFSETS, replicas=(3,), cleanup_policy="compact")
    stage.send(*[b"v"] * 10)
    stage.send(*[b"v"] * 3, tp=OTHER)
    commit(stage, {ORDERS: 4, OTHER: 3})
    return Watcher(stage)


def commit(stage: Stage, offsets: dict[TopicPartition, int]) -> None:
    stage.run(GroupClient(stage.client.client, "g", ORDERS.topic).commit(offsets))


def test_the_lag_of_a_group_is_what_its_leaders_have_beyond_its_offsets() -> None:
    with Stage(3) as stage:
        assert staged(stage).look() == {
            "members": {"": 0},
            "current_offset": {'topic="orders",partition="0"': 4, 'topic="orders",partition="1"': 3},
            "current_offset_sum": {'topic="orders"': 7},
            "lag": {'topic="orders",partition="0"': 6, 'topic="orders",partition="1"': 0},
            "lag_sum": {'topic="orders"': 6},
        }


def test_members_are_counted() -> None:
    with Stage(3, group_initial_rebalance_delay_ms=0) as stage:
        watcher = staged(stage)
        stage.run(GroupClient(stage.client.client, "g", ORDERS.topic).join())
        assert watcher.look()["members"] == {"": 1}


def test_leaders_are_asked_at_most_every_ten_seconds() -> None:
    with Stage(3) as stage:
        watcher = staged(stage)
        assert watcher.look()["lag_sum"] == {'topic="orders"': 6}
        stage.send(b"more")
        stage.pass_time(REFRESH_SECONDS - 1)
        assert watcher.look()["lag_sum"] == {'topic="orders"': 6}
        stage.pass_time(1)
        assert watcher.look()["lag_sum"] == {'topic="orders"': 7}


def test_an_offset_is_shown_without_a_lag_if_the_leader_does_not_answer() -> None:
    with Stage(3, broker_session_timeout_ms=60_000) as stage:
        watcher = staged(stage)
        watcher.look()
        stage.pass_time(REFRESH_SECONDS)
        stage.pause("n2")
        asked_at = stage.now
        value = watcher.look()
        assert stage.now - asked_at <= 2 * ANSWER_SECONDS + 0.5
        assert (value["current_offset_sum"], value["lag"], value["lag_sum"]) == ({'topic="orders"': 7}, {}, {})
        stage.resume("n2")
        stage.pass_time(REFRESH_SECONDS)
        assert watcher.look()["lag_sum"] == {'topic="orders"': 6}


def test_ends_are_asked_for_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lags, "PIECE", 1)
    with Stage(3) as stage:
        value = staged(stage).look()
        assert value["lag"] == {'topic="orders",partition="0"': 6, 'topic="orders",partition="1"': 0}


def test_no_loop_is_held_by_a_look_at_very_many_offsets() -> None:
    with Stage(3) as stage:
        watcher = staged(stage)
        broker = stage.node("n3").broker
        assert broker is not None
        (tenure,) = broker.groups.shards.active
        offsets = tenure.machine._offsets
        for number in range(20_000):
            offsets.put("g", TopicPartition(f"topic{number % 7}", number), offsets.of("g")[ORDERS])
        with counted_turns(stage.sim) as turns:
            value = watcher.look(rows=False)
        assert sum(value["current_offset_sum"].values()) == 20_000 * 4 + 7
        assert turns.most["n3"] <= MOST_CALLS


def test_a_page_of_very_many_rows_is_made_by_parts() -> None:
    rows = [(labels(number=number), number) for number in range(1_000)]
    parts = list(gauge("many", "Rows.", rows).parts())
    assert len(parts) == 4
    assert b"".join(parts).splitlines()[2:] == [
        f'many{{number="{number}"}} {number}'.encode() for number in range(1_000)
    ]
    assert list(gauge("none", "No rows.", []).parts()) == [b"# HELP none No rows.\n# TYPE none gauge\n"]
