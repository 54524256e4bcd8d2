"""New partitions, many at a time."""

from __future__ import annotations

from pathlib import Path

from highwater.errors import Code, KafkaError
from highwater.log import names
from highwater.log.log import Log
from highwater.model import TopicPartition
from tests.unit.log.bench import TOPIC_ID, Bench, on_real_disk

WANTED = [TopicPartition("many", index) for index in range(5)]


def test_partitions_that_are_made_together_are_there_at_the_next_start(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        await bench.create()
        made = await bench.store.create_all([(partition, TOPIC_ID) for partition in WANTED])
        assert [log.partition for log in made if isinstance(log, Log)] == WANTED
        await bench.reopen(clean=False)
        assert {partition: bench.store.logs[partition].topic_id for partition in WANTED} == dict.fromkeys(
            WANTED, TOPIC_ID
        )

    on_real_disk(tmp_path, play)


def test_a_log_that_cannot_be_created_does_not_stop_the_others(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        await bench.create()
        in_the_way = Path(bench.directory / str(WANTED[2]))
        in_the_way.mkdir()
        Path(names.segment_file(in_the_way, 0, names.LOG)).write_bytes(b"somebody's records")
        made = await bench.store.create_all([(partition, TOPIC_ID) for partition in WANTED])
        failed = made.pop(2)
        assert isinstance(failed, KafkaError)
        assert failed.code is Code.KAFKA_STORAGE_ERROR
        assert [log.partition for log in made if isinstance(log, Log)] == [*WANTED[:2], *WANTED[3:]]
        assert WANTED[2] not in bench.store.logs

    on_real_disk(tmp_path, play)
