"""Fetches that ask to wait for days and whose readers hang up: they must not slow producers down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from time import time_ns

import pytest

from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.records import build
from tests.cluster.hostile_inputs import Target, create, fetch, produce
from tests.cluster.nodes import Node
from tests.cluster.peer import Peer, asked
from tests.cluster.test_memory_bounds import processor_seconds

READERS, EACH = 20, 250
WRITES = 400
NOW = time_ns() // 1_000_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node.fresh(tmp_path_factory.mktemp("parked"))
    try:
        yield made.start()
        assert "Traceback" not in made.output, made.output[-3000:]
    finally:
        made.kill()


def cost_of_writes(node: Node, target: Target) -> float:
    """Processor seconds of the node for single records, one after the other."""
    batch = bytes(build([(NOW, b"key", b"value", ())]))
    before = processor_seconds(node)
    with Peer(node.port) as peer:
        for _ in range(WRITES):
            answer = peer.ask(produce(target, batch), 9, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == 0
    return processor_seconds(node) - before


def park(node: Node, target: Target, end: int, readers: ExitStack) -> None:
    """Each reader pipelines fetches for the end of the log, without a session, which wait for 25 days or a gigabyte."""
    wanted = fetch(target, 12, offset=end)
    wanted.max_wait_ms = 2**31 - 1
    wanted.min_bytes = 1 << 30
    for _ in range(READERS):
        reader = readers.enter_context(Peer(node.port))
        reader.send(b"".join(asked(wanted, 12, number) for number in range(EACH)))


def test_fetches_that_wait_cost_a_writer_little_while_their_readers_are_there_and_nothing_afterwards(
    node: Node,
) -> None:
    target = Target("parked", create(node.port, "parked"))
    cost_of_writes(node, target)
    alone = cost_of_writes(node, target) + 0.05
    with ExitStack() as readers:
        park(node, target, 2 * WRITES, readers)
        assert cost_of_writes(node, target) < 10 * alone
    assert cost_of_writes(node, target) < 3 * alone
