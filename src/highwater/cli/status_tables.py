"""The tables of `highwater status`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from highwater.cli.status_quorum import is_observer
from highwater.cli.status_topics import Answer, Part, are_fenced_unawares, partitions


def nodes(answers: Sequence[Answer]) -> Table:
    table = _table("Nodes", "node", "standing", "quorum", "leader", "epoch", "metadata offset")
    for column in table.columns:
        column.overflow = "fold"  # an address has no place to break, and none of it may be missing
    unawares = are_fenced_unawares(answers)
    for address, status in answers:
        if status is None:
            table.add_row(address.node, f"[red]no answer[/red] at {address.http}", "", "", "", "")
            continue
        quorum = status["quorum"]
        offset = status.get("metadata_offset", quorum["high_watermark"])
        standing = status.get("standing", "controller")
        if address.node in unawares:
            standing = "[red]fenced[/red], takes itself for active"
        role = "Observer" if is_observer(status) else quorum["role"]
        _add(table, address.node, standing, role, quorum["leader"], quorum["epoch"], offset)
    return table


def troubled(answers: Sequence[Answer]) -> Table:
    """Damage stays if no other replica can take over: the rest of such a log is served."""
    table = _table("Logs with trouble", "partition", "node", "state", "what was found")
    for address, part in partitions(answers):
        name = f"{part['topic']}-{part['partition']}"
        if part["offline"] is not None:
            _add(table, name, address.node, "[red]offline[/red]", escape(part["offline"]))
        elif part["unwritten"] is not None:
            _add(table, name, address.node, "[red]cannot be written[/red]", escape(part["unwritten"]))
        for found in part["damage"]:
            _add(table, name, address.node, "[red]damaged[/red]", escape(found))
    return table


def compacted(answers: Sequence[Answer]) -> Table:
    """Every replica, because each one is compacted by itself."""
    table = _table("Compacted logs", "partition", "node", "clean up to", "dirty", "limit", "cleaning", "last cleaned")
    for address, part in partitions(answers):
        compaction = part["compaction"]
        if compaction is not None:
            dirty = f"{compaction['dirty_bytes']} bytes, {compaction['dirty_ratio']:.0%}"
            limit = f"{compaction['min_cleanable_dirty_ratio']:.0%}"
            name = f"{part['topic']}-{part['partition']}"
            _add(
                table,
                name,
                address.node,
                compaction["clean_end"],
                dirty,
                limit,
                _cleaning(compaction),
                _cleaned(compaction),
            )
    return table


def is_not_cleaned(part: Part) -> bool:
    return part["compaction"] is not None and part["compaction"]["failed"] is not None


def _cleaning(compaction: dict[str, Any]) -> str:
    if compaction["under_way"] is not None:
        return f"{compaction['under_way']['share']:.0%} done"
    if compaction["failed"] is not None:
        then = "is tried again" if compaction["failed"]["tried_again"] else "not before a restart"
        return f"[red]failed[/red], {then}: {escape(compaction['failed']['reason'])}"
    return "due" if compaction["due"] else ""


def _cleaned(compaction: dict[str, Any]) -> str:
    last = compaction["last"]
    if last is None:
        return ""
    return f"{last['seconds_ago']:.0f} s ago in {last['seconds']:.1f} s, {last['bytes_written']} bytes stayed"


def changes(answers: Sequence[Answer], count: int) -> Table:
    """The changes of all nodes together: what was decided, and what each replica did."""
    found: list[tuple[float, str, str]] = []
    for address, status in answers:
        decisions = () if status is None else status.get("decisions", ())
        found += [(each["seconds_ago"], address.node, each["what"]) for each in decisions]
    for address, part in partitions(answers):
        name = f"{part['topic']}-{part['partition']}"
        found += [(each["seconds_ago"], address.node, f"{name} {each['what']}") for each in part["changes"]]
    table = _table("Last changes", "seconds ago", "node", "change")
    for seconds, node, what in sorted(found)[:count]:
        _add(table, f"{seconds:.1f}", node, what)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*map(str, cells))
