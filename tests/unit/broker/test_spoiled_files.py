"""Small files that are damaged: a node makes them anew, or says by name which one it cannot do without."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from highwater.model import TopicPartition
from highwater.quorum import CorruptElectionState
from tests.unit.broker.living import METADATA, NODE, Living

QUORUM_STATE = METADATA / "quorum-state"
TOPIC_ID = PurePath("/data/orders-0/partition.metadata")
DAMAGED = {
    "emptied": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "zeros at its end": lambda data: data[:-9] + bytes(9),
    "not ascii": lambda data: data[:4] + b"\xe8" + data[5:],
}


def spoil(living: Living, path: PurePath, how: str) -> None:
    storage = living.sim.storage(NODE)
    storage.spoil(path, DAMAGED[how](bytes(storage.file(path).data)))


@pytest.mark.parametrize("how", DAMAGED)
def test_a_node_whose_vote_cannot_be_read_does_not_start_and_names_the_file(how: str) -> None:
    """It might vote a second time in its epoch."""
    with Living().start() as living:
        living.stop()
        spoil(living, QUORUM_STATE, how)
        with pytest.raises(CorruptElectionState, match=f"{QUORUM_STATE} is damaged, restore it"):
            living.reborn().start()


@pytest.mark.parametrize("how", DAMAGED)
def test_a_log_whose_topic_cannot_be_read_is_left_alone_and_the_file_is_named(how: str) -> None:
    with Living().start() as living:
        living.create_topic("orders")
        living.stop()
        spoil(living, TOPIC_ID, how)
        living.reborn().start()
        assert living.node.broker is not None
        failed = living.node.broker.store.unloaded[TopicPartition("orders", 0)]
        assert str(failed).startswith(f"{TOPIC_ID} is damaged"), failed
