"""OffsetFetch in the forms of its versions."""

from __future__ import annotations

import pytest

from highwater.groups import asked_groups, combined
from highwater.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponse
from tests.unit.groups.bench import Bench, G


def ask(bench: Bench, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """As a handler does: through the wire, group by group, and back."""
    read = OffsetFetchRequest.decode(request.encode(version), version)
    groups = []
    for group in asked_groups(read, version):
        bench.do(bench.shard.fetch_offsets(group, bench.caller(version), require_stable=read.require_stable))
        groups.append(bench.answers[max(bench.answers)])
    return OffsetFetchResponse.decode(combined(groups, version).encode(version), version)  # type: ignore[arg-type]


def committed() -> Bench:
    bench = Bench()
    bench.ask_commit({("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    bench.ask_commit({("t", 0): 8}, group="other")
    return bench


@pytest.mark.parametrize("version", range(1, 8))
def test_before_version_8_one_group_is_asked_for(version: int) -> None:
    bench = committed()
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 9])]
    response = ask(bench, OffsetFetchRequest(group_id=G, topics=topics), version)
    assert [(p.partition_index, p.committed_offset) for p in response.topics[0].partitions] == [(0, 5), (9, -1)]


@pytest.mark.parametrize("version", range(2, 8))
def test_from_version_2_on_all_topics_can_be_asked_for(version: int) -> None:
    response = ask(committed(), OffsetFetchRequest(group_id=G, topics=None), version)
    found = {t.name: [(p.partition_index, p.committed_offset) for p in t.partitions] for t in response.topics}
    assert found == {"t": [(0, 5), (1, 6)], "u": [(0, 7)]}


@pytest.mark.parametrize("version", [8, 9])
def test_from_version_8_on_many_groups_are_asked_for(version: int) -> None:
    """KIP-709."""
    named = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    groups = [
        OffsetFetchRequestGroup(group_id="other", topics=named),
        OffsetFetchRequestGroup(group_id="none", topics=None),
        OffsetFetchRequestGroup(group_id=G, topics=None),
    ]
    response = ask(committed(), OffsetFetchRequest(groups=groups), version)
    assert [(g.group_id, len(g.topics), g.error_code) for g in response.groups] == [
        ("other", 1, 0),
        ("none", 0, 0),
        (G, 2, 0),
    ]
    assert response.groups[0].topics[0].partitions[0].committed_offset == 8
