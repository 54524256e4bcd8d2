"""A replica that has lost its log counts for nothing until the log in its place has everything again."""

from __future__ import annotations

from highwater.broker.refilled import LOOK_SECONDS
from highwater.log.scan import BadBatch
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.model import TopicPartition
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import Stage

OTHER = TopicPartition("other", 0)


def damage(stage: Stage, name: str) -> None:
    """As the cleaner finds it, or a reader: a batch that is not what was written."""
    log = stage.log(name)
    log.found_damaged(BadBatch(log.active.file.path, 0, "its checksum is wrong"))


def in_sync_with_everything(stage: Stage, replica: int = 3) -> bool:
    """Not in the ISR, or with all that is committed."""
    if replica not in decided(stage).isr:
        return True
    name = f"n{replica}"
    return stage.has(name) and stage.log(name).log_end >= stage.log("n2").high_watermark


def test_a_replica_that_drops_a_damaged_log_is_not_in_the_isr_before_it_has_everything_again() -> None:
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        sent = [b"v%d" % at for at in range(20)]
        for value in sent:
            stage.send(value)
        stage.until(lambda: stage.log("n3").high_watermark == 20)
        epoch = decided(stage).leader_epoch
        damage(stage, "n3")
        stage.until(lambda: 3 not in decided(stage).isr)
        assert decided(stage).directory(3) == DIRECTORY_LOST
        assert decided(stage).leader_epoch == epoch + 1, "a fetch of the lost log must be refused"
        stage.holds_for(5.0, lambda: in_sync_with_everything(stage))
        assert set(decided(stage).isr) == {2, 3}
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        assert stage.values("n3") == sent


def test_a_fetch_of_the_lost_log_that_arrives_after_all_does_not_speak_for_the_empty_one() -> None:
    """The last fetch of the damaged log lies in the network while the controller marks the replica as lost and an empty
    log takes its place. The leader knows of it before the fetch arrives."""
    with Stage(3, watched=True, replica_lag_time_max_ms=60_000, replica_socket_timeout_ms=60_000) as stage:
        stage.create(OTHER, replicas=(2, 3))  # so that the connection stays when the log goes
        stage.create(replicas=(2, 3))
        for at in range(20):
            stage.send(b"v%d" % at)
        stage.until(lambda: stage.log("n3").high_watermark == 20)
        stage.pass_time(0.1)  # its fetch waits at n2
        stage.cut("n3", "n2", one_way=True)
        stage.write("n2", b"last", acks=1)
        stage.until(lambda: stage.log("n3").log_end == 21)
        stage.pass_time(0.05)  # its next fetch, which acknowledges all 21, is on its way
        damage(stage, "n3")
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
        stage.until(lambda: stage.has("n3") and stage.log("n3").log_end == 0)
        stage.until(lambda: stage.partition("n2").partition_epoch == decided(stage).partition_epoch)
        stage.heal("n3", "n2")
        stage.holds_for(5.0, lambda: in_sync_with_everything(stage))
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n3") == stage.values("n2")


def test_a_log_that_is_damaged_again_before_it_is_reported_goes_in_another_epoch() -> None:
    """The replica is still marked as lost when the log in its place is damaged, too. News of another replica make the
    broker look at it; the last fetch of the second log is on its way, and must not speak for a third."""
    with Stage(4, watched=True, replica_lag_time_max_ms=60_000, replica_socket_timeout_ms=60_000) as stage:
        stage.create(OTHER, replicas=(2, 3))
        stage.create(replicas=(2, 3, 4))
        for at in range(20):
            stage.send(b"v%d" % at)
        stage.until(lambda: stage.log("n3").high_watermark == 20)
        first = stage.log("n3")
        damage(stage, "n3")
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
        stage.until(lambda: stage.has("n3") and stage.log("n3") is not first)
        stage.cut(
            "n3", "n1", one_way=True
        )  # the place of the second log is not reported before that log is damaged, too
        stage.until(lambda: stage.log("n3").log_end == 20)
        stage.pass_time(4 * LOOK_SECONDS)  # it asks where its leader ends, and would report its place then
        stage.cut("n3", "n2", one_way=True)
        stage.write("n2", b"last", acks=1)
        stage.until(lambda: stage.log("n3").log_end == 21)
        stage.pass_time(0.05)
        damage(stage, "n3")
        stage.kill("n4")
        stage.until(lambda: set(decided(stage).isr) == {2})
        epoch = decided(stage).partition_epoch
        stage.until(lambda: stage.has("n3") and stage.partition("n3").partition_epoch == epoch)
        stage.heal("n3", "n1")
        stage.until(lambda: decided(stage).directory(3) != DIRECTORY_LOST)
        stage.until(lambda: stage.partition("n2").partition_epoch == decided(stage).partition_epoch)
        stage.heal("n3", "n2")
        stage.holds_for(5.0, lambda: in_sync_with_everything(stage))
        stage.until(lambda: set(decided(stage).isr) == {2, 3})


def test_a_follower_that_has_all_comes_back_into_the_isr_without_a_new_record() -> None:
    """It names the partition no more, since nothing changes there; below min.insync.replicas nothing ever would."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3), min_insync_replicas=2)
        stage.send(b"v")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.pass_time(2.0)
        fetcher_session = stage.partition("n2").require_leader().followers[3].contact
        stage.cut("n3", "n1")
        stage.until(lambda: set(decided(stage).isr) == {2})
        assert stage.partition("n2").require_leader().followers[3].contact is fetcher_session
        stage.heal()
        stage.until(lambda: set(decided(stage).isr) == {2, 3}, seconds=15.0)
        stage.send(b"w")


def test_a_follower_whose_disk_fails_leaves_the_isr_once_and_no_write_waits_for_it() -> None:
    with Stage(3, watched=True, replica_lag_time_max_ms=30_000) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"before")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.log("n3").storage_failed(OSError(5, "EIO"))
        stage.until(lambda: set(decided(stage).isr) == {2})
        epoch = decided(stage).partition_epoch
        begun = stage.now
        stage.send(b"after")
        assert stage.now - begun < 1.0
        stage.holds_for(5.0, lambda: set(decided(stage).isr) == {2})
        assert decided(stage).partition_epoch <= epoch + 1


def test_a_leader_does_not_ask_for_a_replica_whose_broker_is_being_fenced() -> None:
    """The controller would refuse it; but each such question holds the high watermark back until it is answered."""
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"v")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        in_sync = stage.partition("n2")._in_sync
        expands = in_sync.expands
        stage.kill("n3")
        stage.until(lambda: set(decided(stage).isr) == {2})
        stage.pass_time(2.0)
        assert in_sync.expands == expands
