"""With flush.messages=1 what is acknowledged is on disk: seen in the system calls of a running node."""

from __future__ import annotations

from pathlib import Path

from highwater.client import Client
from highwater.errors import Code
from highwater.model import TopicPartition
from tests.cluster.nodes import Node
from tests.cluster.tracing import Call, calls, needs_strace, traced
from tests.cluster.wire import create, produce

TP = TopicPartition("synced", 0)
ROLLS = 6
FIRST_TIME = 1_700_000_000_000
WRITES = ("pwritev", "pwritev2")


def unsynced_at_each_answer(trace: list[Call], directory: Path, port: int) -> list[set[str]]:
    """What lay in memory only, of segments and of names, at each write to a client's connection."""
    unsynced: set[str] = set()
    found = []
    for call in trace:
        in_log = call.on.startswith(f"{directory}/") and call.on.endswith(".log")
        if call.name in WRITES and in_log:
            unsynced.add(call.on)
        elif call.name in ("fdatasync", "fsync") and "= 0" in call.rest:
            unsynced.discard(call.on)
        elif (
            call.name == "openat" and "O_CREAT" in call.rest and f'"{directory}/' in call.rest and '.log"' in call.rest
        ):
            unsynced.add(str(directory))
        elif call.name in ("write", "writev", "sendto", "sendmsg") and f":{port}->" in call.on:
            found.append(set(unsynced))
    return found


@needs_strace
def test_nothing_is_acknowledged_before_it_is_synced_nor_before_a_new_segments_name_is(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path).start()
    output = tmp_path / "trace"
    directory = node.log_dir / str(TP)
    try:
        with Client(node.bootstrap) as client:
            create(client, TP.topic, flush_messages="1", segment_ms="1000", retention_ms="-1")
            assert produce(client, TP, [b"first"], timestamp=FIRST_TIME) == (Code.NONE, 0)
            with traced(
                node.pid, output, "-e", "trace=openat,pwritev,pwritev2,fdatasync,fsync,write,writev,sendto,sendmsg"
            ):
                for number in range(1, ROLLS + 1):
                    stamp = FIRST_TIME + 2000 * number
                    assert produce(client, TP, [b"rolls"], timestamp=stamp) == (Code.NONE, 2 * number - 1)
                    assert produce(client, TP, [b"stays"], timestamp=stamp, acks=1) == (Code.NONE, 2 * number)
    finally:
        node.kill()
    trace = calls(output)
    assert len(list(directory.glob("*.log"))) == ROLLS + 1
    assert sum(1 for call in trace if call.name in WRITES and call.on.endswith(".log")) >= 2 * ROLLS
    at_answers = unsynced_at_each_answer(trace, directory, node.port)
    assert len(at_answers) >= 2 * ROLLS
    assert not any(at_answers), at_answers
