"""The tables of `highwater status`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from highwater.cli.status_quorum import ids, is_observer
from highwater.cli.status_topics import Answer, Part, partitions

WELL = 2
"""The rank of a partition without trouble."""


def nodes(answers: Sequence[Answer]) -> Table:
    table = _table("Nodes", "node", "standing", "quorum", "leader", "epoch", "metadata offset")
    for address, status in answers:
        if status is None:
            table.add_row(address.node, f"[red]no answer[/red] at {address.http}", "", "", "", "")
            continue
        quorum = status["quorum"]
        offset = status.get("metadata_offset", quorum["high_watermark"])
        standing = status.get("standing", "controller")
        role = "Observer" if is_observer(status) else quorum["role"]
        _add(table, address.node, standing, role, quorum["leader"], quorum["epoch"], offset)
    return table


def partition_rows(leading: Sequence[Part], silent: Sequence[Part], none: Sequence[Part]) -> Table:
    """Trouble first: no leader, a leader that does not answer, too few or not all replicas in sync. Followers are
    folded into the row of their partition."""
    columns = (
        "partition",
        "leader",
        "epoch",
        "log start",
        "high watermark",
        "log end",
        "replicas",
        "min ISR",
        "followers",
    )
    table = _table("Partitions", *columns)
    for part in none:
        may_lead = ids(sorted({*part["isr"], *part["eligible"]})) or "[red]none[/red]"
        _add(table, f"[red]{_name(part)}[/red]", "[red]none[/red]", "", "", "", "", _replicas(part), "",
             f"may lead cleanly: {may_lead}")  # fmt: skip
    for part in silent:
        offsets = (part["log_start"], part["high_watermark"], part["log_end"])
        _add(table, f"[red]{_name(part)}[/red]", f"[red]{part['leader']}?[/red]", part["leader_epoch"], *offsets,
             ids(part["replicas"]), "", "[red]no leader answers[/red]; offsets of a follower")  # fmt: skip
    for part in sorted(leading, key=_by_trouble):
        is_short = len(part["isr"]) < part["min_isr"]
        name = f"[red]{_name(part)}[/red]" if _by_trouble(part)[0] < WELL else _name(part)
        offsets = (part["log_start"], part["high_watermark"], part["log_end"])
        min_isr = f"[red]{part['min_isr']}[/red]" if is_short else part["min_isr"]
        _add(table, name, part["leader"], part["leader_epoch"], *offsets, _replicas(part), min_isr, _followers(part))
    return table


def _name(part: Part) -> str:
    return f"{part['topic']}-{part['partition']}"


def _by_trouble(part: Part) -> tuple[int, str, int]:
    in_sync = len(part["isr"])
    rank = 0 if in_sync < part["min_isr"] else 1 if in_sync < len(part["replicas"]) else WELL
    return rank, part["topic"], part["partition"]


def _replicas(part: Part) -> str:
    """In the order of the assignment: the leader with a star, those out of sync with an exclamation mark."""
    shown = []
    for each in part["replicas"]:
        mark = "[yellow]★[/yellow]" if each == part.get("leader") else "" if each in part["isr"] else "[red]![/red]"
        shown.append(f"{each}{mark}")
    return " ".join(shown)


def _followers(part: Part) -> str:
    """Only those that are behind or out of sync."""
    lines = []
    for each in part["followers"]:
        lag = "behind by an unknown number of" if each["lag"] is None else f"{each['lag']}"
        behind = f"{lag} records, {each['lag_ms']} ms"
        if not each["in_isr"]:
            lines.append(f"[red]{each['id']} out of sync[/red]: {behind}: {escape(each['why'] or '')}")
        elif each["lag"]:
            lines.append(f"{each['id']}: {behind}")
    return "\n".join(lines)


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
