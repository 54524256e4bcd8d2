"""However much one request has looked up, it takes few jobs at a time: the look-ups of other clients come between."""

from __future__ import annotations

from highwater.broker.waiting_fetch import MOST_LOCATING
from highwater.errors import Code
from highwater.log.lookup import first_at_or_after, locate
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse
from tests.unit.broker.living import Living
from tests.unit.broker.test_cold_fetch import NOTHING_IS_CACHED, fetch, produce, wanted

PARTITIONS = 2 * MOST_LOCATING


def most_at_once(living: Living, job: str) -> list[int]:
    """How many jobs of that name are under way, after each step of any; the last job that ran is the last entry."""
    process, counts = living.world._process, [0]

    def look() -> None:
        counts.append(sum(each.__name__ == job for each in process.jobs.values()))
        living.sim.at(living.sim.now + 0.0001, look)

    living.sim.at(living.sim.now, look)
    return counts


def with_records(living: Living) -> Living:
    living.create_topic("t", PARTITIONS)
    for partition in range(PARTITIONS):
        produce(living, partition, b"a")
        produce(living, partition, b"b")
    return living


def test_one_list_offsets_searches_one_partition_at_a_time() -> None:
    with with_records(Living().start()) as living:
        counts = most_at_once(living, first_at_or_after.__name__)
        asked = [ListOffsetsPartition(partition_index=index, timestamp=1) for index in range(PARTITIONS)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=asked)])
        answer = living.ask(request, ListOffsetsResponse, 9)
        assert [(row.error_code, row.offset) for row in answer.topics[0].partitions] == [(Code.NONE, 0)] * PARTITIONS
        assert max(counts) == 1


def test_one_fetch_has_few_places_looked_for_at_a_time() -> None:
    with with_records(Living().start()) as living:
        living.sim.knobs = NOTHING_IS_CACHED
        living.reborn().start()
        counts = most_at_once(living, locate.__name__)
        rows = fetch(living, *(wanted(index, 1) for index in range(PARTITIONS)))
        assert len(rows) == PARTITIONS
        assert 0 < max(counts) <= MOST_LOCATING
