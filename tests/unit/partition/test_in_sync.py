"""Changes of the ISR that cross each other, and a follower's sync before it says anything."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from highwater.errors import Code
from highwater.model import NodeId
from highwater.partition.followed import Followed
from highwater.partition.in_sync import InSync
from highwater.partition.partition import Partition
from highwater.replication.alter_partition import Answer, Proposal
from highwater.replication.follower_progress import Contact
from highwater.replication.leader import Leader
from tests.unit.log.bench import START_MS, Bench, batch, on_real_disk, until

ME, OTHER, THIRD = NodeId(1), NodeId(2), NodeId(3)
ALL = (ME, OTHER, THIRD)
EPOCH, BROKER_EPOCH = 3, 7
EPOCHS = dict.fromkeys(ALL, BROKER_EPOCH)


class Controller:
    """What was asked of it, with the way to answer."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[tuple[tuple[NodeId, ...], Callable[[Answer], None]]] = []
        self.in_sync = InSync(lambda: self.now, lambda: 1.0, self.ask)

    def ask(self, partition: Partition, leader: Leader, proposal: Proposal) -> None:
        self.asked.append((proposal.isr, partial(partition.isr_answered, leader, proposal)))


def played(
    directory: Path, play: Callable[[Controller, Partition], Coroutine[Any, Any, None]], **changes: object
) -> None:
    async def with_partition(bench: Bench) -> None:
        controller = Controller()
        await play(controller, Partition(await bench.create(), controller.in_sync))

    on_real_disk(directory, with_partition, **changes)


def fetch(controller: Controller, partition: Partition, replica: NodeId, offset: int) -> None:
    partition.follower_fetched(replica, offset, 0, BROKER_EPOCH, Contact(controller.now))


def test_metadata_that_is_known_already_takes_no_later_request_back(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        partition.lead(ME, EPOCH, 1, ALL, (ME,), EPOCHS)
        fetch(controller, partition, OTHER, 0)
        isr, answer = controller.asked.pop()
        assert isr == (ME, OTHER)
        partition.lead(ME, EPOCH, 2, ALL, isr, EPOCHS)
        answer(Answer(Code.NONE, 2))
        fetch(controller, partition, THIRD, 0)
        assert partition.leader is not None
        assert partition.leader.maximal_isr == ALL
        pending = partition.leader.proposal
        partition.lead(ME, EPOCH, 2, ALL, isr, EPOCHS)
        assert partition.leader.proposal is pending, "the controller may have let the third one in by now"
        partition.lead(ME, EPOCH, 3, ALL, ALL, EPOCHS)
        assert (partition.leader.isr, partition.leader.proposal) == (ALL, None)

    played(tmp_path, play)


def test_leader_reproposes_a_dropped_follower_that_caught_up_when_it_fetches_again(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        partition.lead(ME, EPOCH, 1, ALL, ALL, EPOCHS)
        partition.append(memoryview(batch((b"v",))), -1, 9, START_MS)
        controller.now += 2.0
        partition.tick()
        isr, answer = controller.asked.pop()
        assert isr == (ME,)
        fetch(controller, partition, OTHER, 1)
        assert not controller.asked, "one change at a time"
        answer(Answer(Code.NONE, 2))
        partition.lead(ME, EPOCH, 2, ALL, isr, EPOCHS)
        assert not controller.asked, "what it said before it left the ISR does not bring it back"
        fetch(controller, partition, OTHER, 1)
        assert [isr for isr, _ in controller.asked] == [(ME, OTHER)]

    played(tmp_path, play, min_insync_replicas=2)


def test_leader_does_not_repropose_a_follower_that_stopped_fetching(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        partition.lead(ME, EPOCH, 1, ALL, ALL, EPOCHS)
        fetch(controller, partition, OTHER, 0)
        partition.append(memoryview(batch((b"v",))), -1, 9, START_MS)
        controller.now += 2.0
        partition.tick()
        isr, answer = controller.asked.pop()
        answer(Answer(Code.NONE, 2))
        partition.lead(ME, EPOCH, 2, ALL, isr, EPOCHS)
        partition.tick()
        assert not controller.asked

    played(tmp_path, play, min_insync_replicas=2)


def test_a_proposed_isr_change_is_sent_once_and_counted(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        def counted() -> tuple[int, int, int]:
            return controller.in_sync.expands, controller.in_sync.shrinks, len(controller.asked)

        partition.lead(ME, EPOCH, 1, ALL, (ME,), EPOCHS)
        assert counted() == (0, 0, 0)
        fetch(controller, partition, OTHER, 0)
        assert counted() == (1, 0, 1)
        partition.append(memoryview(batch((b"v",))), 1, 9, START_MS)
        fetch(controller, partition, OTHER, 1)
        assert partition.log.high_watermark == 1
        assert counted() == (1, 0, 1), "it is asked for already"
        isr, answer = controller.asked.pop()
        answer(Answer(Code.NONE, 2))
        partition.lead(ME, EPOCH, 2, ALL, isr, EPOCHS)
        partition.append(memoryview(batch((b"v",))), 1, 9, START_MS)
        controller.now += 2.0
        partition.tick()
        assert counted() == (1, 1, 1)

    played(tmp_path, play)


def test_a_caught_up_follower_is_proposed_once_its_broker_is_unfenced(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        partition.lead(ME, EPOCH, 1, ALL, (ME,), EPOCHS | {OTHER: None})
        fetch(controller, partition, OTHER, 0)
        assert not controller.asked, "its broker is fenced"
        partition.brokers_changed({OTHER: BROKER_EPOCH})
        assert [isr for isr, _ in controller.asked] == [(ME, OTHER)]

    played(tmp_path, play)


def test_an_answer_to_an_earlier_term_says_nothing_to_this_one(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        partition.lead(ME, EPOCH, 1, ALL, (ME,), EPOCHS)
        fetch(controller, partition, OTHER, 0)
        _, answer = controller.asked.pop()
        partition.lead(ME, EPOCH + 1, 5, ALL, (ME,), EPOCHS)
        fetch(controller, partition, OTHER, 0)
        assert partition.leader is not None
        asked = partition.leader.proposal
        answer(Answer(Code.OPERATION_NOT_ATTEMPTED))
        assert asked is not None and partition.leader.proposal is asked

    played(tmp_path, play)


def test_a_refusal_of_what_an_earlier_term_proposed_commits_nothing_in_this_one(tmp_path: Path) -> None:
    """The follower is in the ISR now, and lacks what the earlier term would commit without it."""

    async def play(controller: Controller, partition: Partition) -> None:
        partition.lead(ME, EPOCH, 1, ALL, (ME,), EPOCHS)
        fetch(controller, partition, OTHER, 0)
        _, answer = controller.asked.pop()
        partition.append(memoryview(batch()), 1, 9, START_MS)
        partition.lead(ME, EPOCH + 1, 5, ALL, (ME, OTHER), EPOCHS)
        controller.now += 2.0  # for the earlier term, the follower is no longer about to join
        answer(Answer(Code.OPERATION_NOT_ATTEMPTED))
        assert (partition.log.log_end, partition.log.high_watermark) == (1, 0)

    played(tmp_path, play)


def test_in_flush_mode_a_follower_knows_what_it_has_not_synced_and_learns_when_it_has(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        partition.step_down(OTHER, EPOCH, 1, ALL)
        partition.append_fetched(memoryview(batch((b"v",))))
        called: list[str] = []
        for follower in ("of the old leader", "of the new one"):
            followed = Followed(partition, 1.0)
            assert followed.is_unsynced
            followed.when_durable(lambda follower=follower: called.append(follower))  # type: ignore[misc]
        assert not called
        await until(lambda: bool(called))
        assert (called, Followed(partition, 1.0).is_unsynced) == (["of the old leader", "of the new one"], False)

    played(tmp_path, play, flush_messages=1)


def test_a_callback_that_waits_for_a_sync_is_called_when_the_disk_fails(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        partition.step_down(OTHER, EPOCH, 1, ALL)
        partition.append_fetched(memoryview(batch((b"v",))))
        called: list[bool] = []
        partition.when_durable(5, lambda: called.append(True))
        partition.log.offline = OSError("the disk failed")
        partition.failed()
        assert called == [True]

    played(tmp_path, play, flush_messages=1)


def test_a_change_of_the_isr_is_logged_with_the_reason_that_its_leader_had(tmp_path: Path) -> None:
    async def play(controller: Controller, partition: Partition) -> None:
        partition.lead(ME, EPOCH, 1, ALL, ALL, EPOCHS, "so the metadata has it")
        partition.append(memoryview(batch((b"v",))), -1, 9, START_MS)
        fetch(controller, partition, OTHER, 1)
        controller.now += 31.2
        fetch(controller, partition, OTHER, 1)
        partition.tick()
        isr, answer = controller.asked.pop()
        assert [what for _, what in partition.changes][1:] == [], "asked for is not yet changed"
        answer(Answer(Code.NONE, 2))
        partition.lead(ME, EPOCH, 2, ALL, isr, EPOCHS, "the controller decided it")
        fetch(controller, partition, THIRD, 1)
        isr, _ = controller.asked.pop()
        partition.lead(ME, EPOCH, 3, ALL, isr, EPOCHS, "the controller decided it")
        partition.lead(ME, EPOCH, 4, ALL, (ME, THIRD), EPOCHS, "2 is fenced")
        partition.step_down(OTHER, EPOCH + 1, 5, ALL, "leader 1 is fenced")
        assert [what for _, what in partition.changes] == [
            "leads in epoch 3 from offset 0 on, ISR 1,2,3: so the metadata has it",
            "ISR 1,2,3 -> 1,2: 3 last caught up 31.2 s ago, limit 1 s",
            "ISR 1,2 -> 1,2,3: 3 has caught up",
            "ISR 1,2,3 -> 1,3: 2 is fenced",
            "follows 2 in epoch 4, end 1, high watermark 1: leader 1 is fenced",
        ]

    played(tmp_path, play)
