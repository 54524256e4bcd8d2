"""What was cut off a log stays cut off: a power cut that brought it back would put it in the place of what was fetched
instead, whole, with a checksum that does not cover the epoch, in which alone they differ."""

from __future__ import annotations

from pathlib import PurePath

from highwater.model import METADATA_TOPIC
from tests.scenarios.mishaps import decided
from tests.scenarios.pair import lead
from tests.scenarios.stage import Stage

SEGMENT = f"{0:020d}.log"
RECORDS = PurePath("/data/orders-0") / SEGMENT
METADATA = PurePath(f"/data/{METADATA_TOPIC}-0") / SEGMENT


def is_durable(stage: Stage, name: str, path: PurePath) -> bool:
    """Whether a power cut now would leave the file as it is."""
    storage = stage.storage(name)
    return storage.durable_bytes(path) == bytes(storage.file(path).data)


def test_a_follower_syncs_its_cut_before_it_fetches_on() -> None:
    with Stage() as stage:
        stage.create(replicas=(2, 3), flush_messages=1)
        stage.send(b"m1")
        stage.cut("n2", "n3")
        stage.write("n2", b"m2", acks=1)
        stage.until(lambda: stage.log("n2").durable_end == 2)
        stage.cut_power("n2", "n3")
        stage.heal()
        lead(stage, "n3")
        stage.start("n2", waits=False)
        stage.until(lambda: stage.has("n2") and stage.partition("n2").cutting is not None)
        cutting = stage.partition("n2").cutting
        stage.until(lambda: cutting is not None and cutting.done())
        assert stage.log("n2").log_end == 1
        assert is_durable(stage, "n2", RECORDS)


def test_a_voter_syncs_the_cut_of_its_metadata_before_it_fetches_on() -> None:
    """The active controller writes what nobody else gets to see; another one is elected, and its history holds."""
    with Stage(3, voters=3) as stage:
        stage.until(stage.cluster.active_controller)
        old = stage.cluster.active_controller()
        assert old is not None
        raft = stage.node(old).raft
        stage.isolate(old)
        end = raft.files.log_end
        stage.until(lambda: raft.files.durable_end > end)
        stage.until(lambda: stage.cluster.active_controller() not in (None, old))
        stage.heal()
        stage.until(lambda: stage.said(old, "is cut to"))
        before = raft.files.log_end
        stage.until(lambda: not raft.is_deciding)
        assert raft.files.log_end < before
        assert is_durable(stage, old, METADATA)


def test_a_follower_that_begins_anew_syncs_its_new_segment_before_it_fetches_on() -> None:
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").log_end == 1)
        stage.kill("n3")
        stage.until(lambda: set(decided(stage).isr) == {2})
        for at in range(5):
            stage.send(b"w%d" % at)
        stage.run(stage.client.delete_records("n2", 6))
        stage.start("n3", waits=False)
        stage.until(lambda: stage.has("n3") and stage.log("n3").log_start == 6)
        cutting = stage.partition("n3").cutting
        stage.until(lambda: cutting is not None and cutting.done())
        assert stage.storage("n3").durable_bytes(PurePath("/data/orders-0") / f"{6:020d}.log") is not None
        assert stage.storage("n3").durable_bytes(RECORDS) is None
