"""Groups, their members and their lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from highwater.client import Client, ClientFailure
from highwater.client.groups import GroupDescription, Groups, assigned
from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.errors import KafkaError
from highwater.model import TopicPartition
from highwater.wire.codec import Malformed

MOST_GROUPS: Final = 200


def read_groups(client: Client) -> dict[str, dict[str, Any]]:
    """By name. A group that cannot be described has the reason instead."""
    groups = Groups(client)
    found: dict[str, dict[str, Any]] = {}
    for listed in sorted(groups.list_groups(), key=lambda each: each.group_id)[:MOST_GROUPS]:
        name = listed.group_id
        try:
            committed = {place: each.offset for place, each in groups.committed(name).items()}
            found[name] = described(groups.describe(name), committed, _ends(client, committed))
        except (KafkaError, ClientFailure) as error:
            found[name] = {"group": name, "state": listed.group_state, "error": str(error), "members": [], "rows": []}
    return found


def described(
    description: GroupDescription, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    group = description.group
    owners: dict[TopicPartition, str] = {}
    members = []
    for member in group.members:
        try:
            held = assigned(member)
        except Malformed:
            held = []
        owners.update(dict.fromkeys(held, member.member_id))
        members.append(
            {
                "id": member.member_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": [str(place) for place in sorted(held)],
            }
        )
    rows = [_row(place, committed.get(place), ends.get(place), owners.get(place)) for place in _all(committed, owners)]
    known = [int(row["lag"]) for row in rows if row["lag"] is not None]
    return {
        "group": group.group_id,
        "state": group.group_state,
        "strategy": group.protocol_data or None,
        "coordinator": description.coordinator.node,
        "members": members,
        "rows": rows,
        "lag": str(sum(known)),
        "topics": sorted({row["topic"] for row in rows}),
        "error": None,
    }


def lags(group: Mapping[str, Any]) -> dict[str, int]:
    rows = (row for row in group["rows"] if row["lag"] is not None)
    return {f"{row['topic']}-{row['partition']}": int(row["lag"]) for row in rows}


def _all(committed: Iterable[TopicPartition], owned: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted({*committed, *owned})


def _row(place: TopicPartition, offset: int | None, end: int | None, owner: str | None) -> dict[str, Any]:
    lag = None if offset is None or end is None else max(end - offset, 0)
    return {
        "topic": place.topic,
        "partition": place.partition,
        "committed": None if offset is None else str(offset),
        "end": None if end is None else str(end),
        "lag": None if lag is None else str(lag),
        "member": owner,
    }


def _ends(client: Client, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Partitions that were deleted, or that have no leader, are left out."""
    found = list_offsets(client, dict.fromkeys(places, LATEST))
    return {place: each.offset for place, each in found.items() if isinstance(each, FoundOffset)}
