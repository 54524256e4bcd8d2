"""What one incarnation of a broker has fetched says nothing of what the next one has."""

from __future__ import annotations

from highwater.errors import Code
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import Stage
from tests.scenarios.test_e_groups import OFFSETS, Consumers, _settings


def test_a_broker_fetches_nothing_before_it_has_applied_its_own_registration() -> None:
    """n3 starts and cannot reach the controller: n2 hears nothing from an incarnation that it could not distinguish
    from the next one. That one has lost its tail, and is not in the ISR before it has everything (KIP-903)."""
    with Stage(3, watched=True, replica_lag_time_max_ms=30_000) as stage:
        stage.create(replicas=(2, 3))
        for at in range(5):
            stage.send(b"v%d" % at)
        stage.until(lambda: stage.log("n3").high_watermark == 5)
        stage.kill("n3")
        stage.until(lambda: tuple(decided(stage).isr) == (2,))
        for at in range(5, 10):
            stage.send(b"v%d" % at)
        leader = stage.partition("n2").require_leader()
        heard = leader.followers[3].fetched_at
        stage.start("n3", waits=False)
        stage.until(lambda: stage.has("n3") and stage.partition("n3").epoch >= 0)
        assert stage.node("n3").broker.lifecycle.epoch < 0
        stage.cut("n1", "n3")
        stage.pass_time(3.0)
        assert leader.followers[3].fetched_at == heard, "it has fetched without a registration"
        stage.heal("n1", "n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.log("n3").log_end == 10


def test_fetches_before_a_lost_tail_do_not_count_for_the_next_incarnation() -> None:
    with Stage(3, watched=True, replica_lag_time_max_ms=30_000) as stage:
        stage.create(replicas=(2, 3))
        for at in range(10):
            stage.send(b"v%d" % at)
        stage.until(lambda: stage.log("n3").high_watermark == 10)
        stage.cut_power("n3")
        stage.lose_records("n3", 5)
        stage.cut("n2", "n3")
        stage.start("n3", waits=False)
        member = stage.member("n3")
        stage.until(lambda: stage.has("n3") and member.node is not None and member.node.broker.lifecycle.epoch >= 0)
        stage.holds_for(5.0, lambda: set(decided(stage).isr) == {2} or stage.log("n3").log_end >= 10)
        stage.heal("n2", "n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.log("n3").log_end == 10


def test_a_follower_that_does_not_send_its_broker_epoch_is_refused() -> None:
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"v")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        before = stage.partition("n2").require_leader().followers[3].end
        fetched = stage.run(stage.client.fetch("n2", 0, epoch=0, replica=3, broker_epoch=-1))
        assert fetched.code is Code.UNSUPPORTED_VERSION
        assert stage.partition("n2").require_leader().followers[3].end == before


def test_a_leader_that_lost_its_tail_learns_from_the_next_one_where_each_epoch_began() -> None:
    """n2 starts with less than it had, while metadata still has it lead. Were epoch 2 to begin where its log ends now,
    n2 would make its own followers cut committed records off, once it leads again."""
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"epoch 0")
        for victim, heir in (("n2", "n3"), ("n3", "n2")):
            stage.kill(victim)
            stage.until(lambda heir=heir: stage.leader() == heir)  # type: ignore[misc]
            stage.start(victim)
            stage.until(lambda: set(decided(stage).isr) == {2, 3})
            stage.send(f"epoch {decided(stage).leader_epoch}".encode())
        stage.until(lambda: stage.log("n3").high_watermark == 3)
        history = stage.log("n3").epoch_cache.entries
        assert stage.leader() == "n2" and [start for _, start in history] == [0, 1, 2]
        stage.cut_power("n2")
        stage.lose_records("n2", 1)
        stage.start("n2", waits=False)
        stage.until(lambda: stage.has("n2"))
        assert stage.log("n2").log_end == 1
        stage.holds_for(0.05, lambda: stage.partition("n2").leader is None)
        stage.until(lambda: stage.leader() == "n3" and set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == stage.values("n3")
        assert stage.log("n2").epoch_cache.entries[:3] == history


def test_a_broker_leads_nothing_before_it_has_applied_its_own_registration() -> None:
    """n2 lost power and its tail, and starts again while metadata still has it lead. In the epoch of its last life it,
    or a coordinator on it, would give an offset that its follower has to another record, and no
    epoch would distinguish the two."""
    with Stage(3, replica_lag_time_max_ms=30_000) as stage:
        stage.create(replicas=(2, 3))
        for at in range(10):
            stage.send(b"v%d" % at)
        stage.until(lambda: stage.log("n3").high_watermark == 10)
        stage.cut_power("n2")
        stage.start("n2", waits=False)
        stage.until(lambda: stage.has("n2") and stage.partition("n2").epoch >= 0)
        assert stage.node("n2").broker.lifecycle.epoch < 0
        assert stage.log("n2").log_end < 10
        assert decided(stage).leader == 2
        stage.cut("n1", "n2")
        stage.holds_for(1.0, lambda: stage.partition("n2").leader is None)
        stage.heal("n1", "n2")
        stage.until(lambda: decided(stage).leader == 3 and set(decided(stage).isr) == {2, 3})
        stage.kill("n3")
        stage.until(lambda: decided(stage).leader == 2)
        assert stage.read() == [b"v%d" % at for at in range(10)]


def test_a_coordinator_writes_nothing_before_its_broker_has_applied_its_own_registration() -> None:
    """n2 is the last of the ISR and begins another life, in which a member's session ends. n3 may have what n2 has lost
    by then: a record of the same epoch in its place would make two histories of one."""
    with Stage(3, **_settings(broker_session_timeout_ms=60_000)) as stage:
        stage.create(replicas=(2, 3))
        stage.create(OFFSETS, replicas=(2, 3))
        consumers = Consumers(stage)
        consumers.run("one", consumers.client("one").join)
        stage.kill("n3")
        stage.until(lambda: tuple(decided(stage, OFFSETS).isr) == (2,))
        end, epoch = stage.log("n2", OFFSETS).log_end, stage.partition("n2", OFFSETS).epoch
        stage.kill("n2")
        stage.start("n2", waits=False)
        stage.until(lambda: stage.has("n2", OFFSETS))
        stage.cut("n2", "n1")
        stage.pass_time(50.0)
        assert stage.node("n2").broker.lifecycle.epoch < 0
        assert stage.log("n2", OFFSETS).log_end == end
        stage.heal()
        stage.until(lambda: stage.log("n2", OFFSETS).log_end > end, 60)
        assert stage.records("n2", OFFSETS)[end].epoch > epoch
