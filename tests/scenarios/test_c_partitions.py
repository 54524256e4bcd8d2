"""Group C, controller quorum: five voters through cuts and losses of their leaders (C12)."""

from __future__ import annotations

from highwater.errors import Code
from highwater.quorum import Role
from tests.scenarios.metadata import (
    agree,
    batches,
    controller,
    create,
    create_topic,
    leaders,
    others,
    quorum,
    raft,
    topics,
)
from tests.scenarios.stage import Stage


def test_c12_a_majority_of_five_survives_cuts_and_deaths_and_all_agree_in_the_end() -> None:
    """Five voters: a leader that hears nobody, two leaders lost in a row, and a leader that is left with one follower
    and its clients. Each time the majority decides on, the minority decides nothing, and all logs end up the same."""
    with Stage(5, voters=5, watched=True) as stage:
        names = stage.cluster.names
        create(stage, controller(stage), "before")

        deaf = controller(stage)
        for other in others(stage, deaf):
            stage.cut(other, deaf, one_way=True)
        stage.until(lambda: deaf not in leaders(stage) and stage.cluster.active_controller() not in (None, deaf))
        create(stage, controller(stage), "one-way")
        stage.heal()
        stage.until(lambda: agree(stage, *names))

        first = controller(stage)
        stage.kill(first)
        stage.until(lambda: leaders(stage))
        (second,) = leaders(stage)
        stage.kill(second)
        create(stage, controller(stage), "two-lost")
        assert controller(stage) not in (first, second)
        stage.start(first, second)
        stage.until(lambda: agree(stage, *names))

        minority = [controller(stage), others(stage, controller(stage))[0]]
        majority = others(stage, *minority)
        for one in minority:
            stage.isolate(one, *minority)
        asked = stage.begin(create_topic(stage, minority[0], "never-decided", ms=900))
        stage.until(lambda: any(name in leaders(stage) for name in majority))
        new = next(name for name in majority if name in leaders(stage))
        create(stage, new, "by-three-of-five")
        stage.until(lambda: asked.done)
        assert asked.result is not Code.NONE
        assert all("never-decided" not in topics(stage, name) for name in names)
        stage.until(lambda: quorum(stage, minority[0]).role is not Role.LEADER)
        stage.heal()
        stage.until(lambda: agree(stage, *names))

        assert topics(stage, new) == ["before", "by-three-of-five", "one-way", "two-lost"]
        assert [raft(stage, name).log.start_offset for name in names] == [0] * 5
        committed = quorum(stage, new).high_watermark
        assert len({tuple(batches(stage, name, committed)) for name in names}) == 1, "the logs are not the same"
