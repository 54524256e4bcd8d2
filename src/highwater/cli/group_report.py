"""Groups in the layouts of kafka-consumer-groups.sh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import click

from highwater.client.groups import Committed, GroupDescription, assigned
from highwater.model import TopicPartition
from highwater.wire.messages.list_groups_response import ListedGroup

MISSING = "-"
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class OffsetRow(NamedTuple):
    topic: str
    partition: int
    committed: Committed | None
    log_end: int | None
    consumer: str = MISSING
    host: str = MISSING
    client: str = MISSING

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.log_end is None else self.log_end - self.committed.offset

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "committed_offset": None if self.committed is None else self.committed.offset,
            "log_end_offset": self.log_end,
            "lag": self.lag,
            "consumer_id": None if self.consumer == MISSING else self.consumer,
            "host": None if self.host == MISSING else self.host,
            "client_id": None if self.client == MISSING else self.client,
        }


def group_json(description: GroupDescription) -> dict[str, object]:
    group, coordinator = description.group, description.coordinator
    return {
        "group": group.group_id,
        "state": group.group_state,
        "assignment_strategy": group.protocol_data or None,
        "coordinator": {"id": coordinator.node, "address": str(coordinator.endpoint)},
        "members": [
            {
                "consumer_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "host": member.client_host,
                "client_id": member.client_id,
                "partitions": [{"topic": topic, "partition": index} for topic, index in assigned(member)],
            }
            for member in group.members
        ],
    }


def offset_rows(
    description: GroupDescription, committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]
) -> list[OffsetRow]:
    """The partitions of each member, beginning with the member that has the most; then those without a member."""
    rows: list[OffsetRow] = []
    owned: set[TopicPartition] = set()
    for member in sorted(description.group.members, key=lambda member: -len(assigned(member))):
        held = assigned(member)
        owned.update(held)
        rows += [
            OffsetRow(
                *place, committed.get(place), ends.get(place), member.member_id, member.client_host, member.client_id
            )
            for place in sorted(held)
        ]
    return rows + [
        OffsetRow(*place, committed[place], ends.get(place)) for place in sorted(committed) if place not in owned
    ]


def is_shown(group_id: str, state: str, rows: int) -> bool:
    """Whether there is anything to print of a group. If not, or if the group is changing, it prints the reason."""
    if state == "Dead":
        click.echo(f"\nError: Consumer group '{group_id}' does not exist.")
    elif state == "Empty":
        click.echo(f"\nConsumer group '{group_id}' has no active members.", err=True)
    elif state in _REBALANCING:
        click.echo(f"\nWarning: Consumer group '{group_id}' is rebalancing.", err=True)
    return state != "Dead" and rows > 0


def print_offsets(description: GroupDescription, rows: list[OffsetRow], verbose: bool) -> None:
    group = description.group
    if not is_shown(group.group_id, group.group_state, len(rows)):
        return
    epoch = ["LEADER-EPOCH"] if verbose else []
    header = ["GROUP", "TOPIC", "PARTITION", *epoch, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST"]
    lines = [[*header, "CLIENT-ID"]]
    for row in rows:
        offset = None if row.committed is None else row.committed.offset
        known = row.committed is not None and row.committed.leader_epoch >= 0
        epochs = (
            [str(row.committed.leader_epoch) if row.committed is not None and known else MISSING] if verbose else []
        )
        numbers = [*epochs, _or_missing(offset), _or_missing(row.log_end), _or_missing(row.lag)]
        lines.append([group.group_id, row.topic, str(row.partition), *numbers, row.consumer, row.host, row.client])
    fixed = [10, *([15] if verbose else []), 15, 15, 15]
    widths = [_width(lines, 0), _width(lines, 1), *fixed, _width(lines, -3), _width(lines, -2), 0]
    for line in lines:
        click.echo("\n" + _row(line, widths), nl=False)
    click.echo()


def print_members(description: GroupDescription, verbose: bool) -> None:
    group = description.group
    is_shown(group.group_id, group.group_state, len(group.members))
    static = any(member.group_instance_id for member in group.members)
    header = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if static else []), "HOST", "CLIENT-ID", "#PARTITIONS"]
    lines = [header]
    for member in group.members:
        instance = [member.group_instance_id or ""] if static else []
        held = len(assigned(member))
        lines.append([group.group_id, member.member_id, *instance, member.client_host, member.client_id, str(held)])
    widths = [max(15, _width(lines, at)) for at in range(len(header) - 1)] + [15]
    if static:
        widths[2] = max(17, widths[2])
    ends = _epochs_and_assignments(description) if verbose else [""] * len(lines)
    click.echo()
    for line, end in zip(lines, ends, strict=True):
        click.echo(_row(line, widths) + " " + end)


def _epochs_and_assignments(description: GroupDescription) -> list[str]:
    """Members of the classic protocol have neither epochs nor targets."""
    lines = [["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]]
    lines += [[MISSING, _assignment(assigned(each)), MISSING, MISSING] for each in description.group.members]
    width = max(20, max(len(line[1]) for line in lines[1:]) if lines[1:] else 0)
    return [_row(line, [15, width, 15, 20]) for line in lines]


def _assignment(places: Iterable[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        topics.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, held))}" for topic, held in topics.items()) or MISSING


def print_state(description: GroupDescription, verbose: bool) -> None:
    group, coordinator = description.group, description.coordinator
    if not is_shown(group.group_id, group.group_state, 1):
        return
    at = f"{coordinator.endpoint.host}:{coordinator.endpoint.port}  ({coordinator.node})"
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    line = [group.group_id, at, group.protocol_data or MISSING, group.group_state]
    widths = [max(15, len(group.group_id)), max(25, len(at)), 20, 20]
    if verbose:
        header, line, widths = (
            [*header, "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"],
            [*line, MISSING, MISSING],
            [*widths, 15, 25],
        )
    click.echo("\n" + _row([*header, "#MEMBERS"], [*widths, 0]))
    click.echo(_row([*line, str(len(group.members))], [*widths, 0]))


def print_list(groups: list[ListedGroup], types: bool, states: bool) -> None:
    width = max([15, *(len(group.group_id) for group in groups)]) + 10
    lines = [["GROUP", *(["TYPE"] if types else []), *(["STATE"] if states else [])]]
    for group in groups:
        kind = (group.group_type or "unknown").capitalize()
        lines.append(
            [group.group_id, *([kind] if types else []), *([group.group_state or "Unknown"] if states else [])]
        )
    for line in lines:
        click.echo(_row(line, [width, 20, 20][: len(line)]))


def print_new_offsets(offsets: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    lines = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    for group_id, planned in offsets.items():
        lines += [[group_id, place.topic, str(place.partition), str(planned[place])] for place in sorted(planned)]
    for line in lines if offsets else ():
        click.echo("\n" + _row(line, [_width(lines, 0), _width(lines, 1), 10, 0]), nl=False)
    click.echo()


def _width(lines: list[list[str]], column: int) -> int:
    return max(15, *(len(line[column]) for line in lines[1:])) if len(lines) > 1 else 15


def _row(values: Iterable[str], widths: Iterable[int]) -> str:
    return " ".join(f"{value:<{width}}" for value, width in zip(values, widths, strict=True))


def _or_missing(number: int | None) -> str:
    return MISSING if number is None else str(number)
