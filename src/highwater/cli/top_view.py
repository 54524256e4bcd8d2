"""What `highwater top` shows: brokers, partitions with their lanes, and groups, as lines of one screen. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Final, NamedTuple

from rich.text import Text

from highwater.broker.internal_topics import is_internal
from highwater.cli.replica_bar import DEAD, LEADER, OUT, bar, window_for
from highwater.cli.silent_nodes import Remedy
from highwater.cli.status_quorum import is_observer
from highwater.cli.status_topics import Answer, Part, are_fenced_unawares, leaderless, partitions
from highwater.cli.status_verdict import led, unled, verdict_of

NARROW: Final = 80
MOST_GROUPS: Final = 6
_LEAST_BAR: Final = 5
KEYS: Final = "q quit  ↑↓ scroll  i internal topics"


class GroupLag(NamedTuple):
    group: str
    topic: str
    lag: int
    members: int


@dataclass(slots=True)
class TopView:
    """The last answers, and what the user has chosen to see."""

    answers: list[Answer] = field(default_factory=list)
    groups: list[GroupLag] = field(default_factory=list)
    rates: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """Committed records in a second, by partition."""
    scroll: int = 0
    shows_internal: bool = False
    clock: str = ""
    remedies: Mapping[str, Remedy] = field(default_factory=dict)
    """By node: for those that do not answer, where it is known what helps."""


def screenful(view: TopView, width: int, height: int) -> list[Text]:
    """Exactly `height` lines. Partitions have the room that brokers and groups leave."""
    top = [_head(view, width), *_verdict(view, width), *_brokers(view, width)]
    groups = _groups(view.groups)
    rows = _partitions(view, width)
    room = max(1, height - len(top) - len(groups) - 1)
    view.scroll = max(0, min(view.scroll, len(rows) - room))
    shown = rows[view.scroll : view.scroll + room]
    more = len(rows) - view.scroll - len(shown)
    title = (
        f"partitions {view.scroll + 1 if rows else 0}-{view.scroll + len(shown)} of {len(rows)}"
        if rows
        else "no partitions"
    )
    lines = [*top, Text(f"{title}{' ↓' if more else ''}", "bold"), *shown]
    lines += [Text()] * (height - len(lines) - len(groups)) + groups
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines[:height]


def _head(view: TopView, width: int) -> Text:
    left = f"highwater top  {view.clock}"
    keys = KEYS if width >= NARROW else KEYS.replace("  ", " ").replace(" topics", "")
    return Text.assemble((left, "bold"), " " * max(1, width - len(left) - len(keys)), (keys, "dim"))


def _verdict(view: TopView, width: int) -> list[Text]:
    if not view.answers or all(status is None for _, status in view.answers):
        return [Text("no node answers: is the cluster running?", DEAD)]
    verdict = verdict_of(view.answers)
    style = "bold green" if verdict.is_well else DEAD
    return [Text(line, style) for line in wrap(verdict.text, width)]


def _brokers(view: TopView, width: int) -> Iterator[Text]:
    is_wide = width >= NARROW
    head = f"{'node':<7}{'standing':<12}{'quorum':<12}{'leads':>7}{'replicas':>10}"
    yield Text(f"{head}{'bytes':>18}" if is_wide else head, "dim")
    unawares = are_fenced_unawares(view.answers)
    for address, status in view.answers:
        if status is None:
            remedy = view.remedies.get(address.node)
            why = f"no answer at {address.http}" if remedy is None else f"{remedy.standing}: {remedy.command}"
            yield Text(f"{address.node:<7}{why}", DEAD)
            continue
        rows = status.get("partitions", ())
        leads = sum(row["role"] == "leader" for row in rows)
        role = "observer" if is_observer(status) else str(status["quorum"]["role"]).lower()
        size = sum(row["size"] for row in rows)
        standing = "fenced" if address.node in unawares else status.get("standing", "controller")
        line = Text(f"{address.node:<7}")
        line.append(f"{standing:<12}", "green" if standing in ("active", "controller") else OUT)
        yield line.append(f"{role:<12}{leads:>7}{len(rows):>10}{f'{size:>18,}' if is_wide else ''}")


def _partitions(view: TopView, width: int) -> list[Text]:
    def is_shown(part: Part) -> bool:
        return view.shows_internal or not is_internal(part["topic"])

    none = [part for part in leaderless(view.answers, None, internal=True) if is_shown(part)]
    silent = [part for part in unled(view.answers) if is_shown(part)]
    leading = sorted((part for part in led(view.answers) if is_shown(part)), key=_by_trouble)
    names = [_name(part) for part in (*none, *silent, *leading)]
    column = min(max(map(len, names), default=0), 24 if width >= NARROW else 12) + 1
    replicas = {
        (_name(part), int(address.node)): part for address, part in partitions(view.answers) if address.node.isdigit()
    }
    lines = [_named(part, column).append("no leader", DEAD) for part in none]
    lines += [_named(part, column).append(f"leader {part['leader']} does not answer", DEAD) for part in silent]
    lines += [
        _row(part, replicas, view.rates.get((part["topic"], part["partition"]), 0.0), column, width) for part in leading
    ]
    return lines


def _row(part: Part, replicas: Mapping[tuple[str, int], Part], rate: float, column: int, width: int) -> Text:
    """The name, what is committed, the rate, and a bar for each replica."""
    line = _named(part, column)
    line.append(f"e{part['leader_epoch']:<3}{part['high_watermark']:>{11 if width >= NARROW else 9},}")
    if width >= NARROW:
        line.append(f"{rate:>8,.0f}/s")
    ends = {node: _offsets(part, replicas, node) for node in part["replicas"]}
    end = max([part["log_end"], *(log_end for _, log_end in ends.values())])
    window = window_for(end - log_end for _, log_end in ends.values())
    room = (width - line.cell_len) // max(1, len(ends)) - 5
    for node, (high_watermark, log_end) in ends.items():
        is_out = node not in part["isr"]
        mark, style = ("★", LEADER) if node == part["leader"] else ("!", OUT) if is_out else (" ", "")
        line.append(f" {node:>2}").append(mark, style)
        if room >= _LEAST_BAR:
            drawn = bar(high_watermark, log_end, end, window, room)
            if is_out:
                drawn.stylize(OUT)
            line.append_text(drawn)
    return line


def _offsets(part: Part, replicas: Mapping[tuple[str, int], Part], node: int) -> tuple[int, int]:
    """High watermark and log end: of the replica itself, or as the leader knows it."""
    if node == part["leader"]:
        return part["high_watermark"], part["log_end"]
    own = replicas.get((_name(part), node))
    if own is not None:
        return own["high_watermark"], own["log_end"]
    end = next((each["log_end"] for each in part["followers"] if each["id"] == node), -1)
    return min(part["high_watermark"], max(end, 0)), max(end, 0)


def _groups(groups: Sequence[GroupLag]) -> list[Text]:
    if not groups:
        return []
    behind = sorted(groups, key=lambda each: (-each.lag, each.group, each.topic))
    lines = [Text(f"{'group':<24}{'members':>8}{'lag':>10}  topic", "dim")]
    lines += [
        Text(f"{each.group:<24.23}{each.members:>8}{each.lag:>10,}  {each.topic}") for each in behind[:MOST_GROUPS]
    ]
    if len(behind) > MOST_GROUPS:
        lines.append(Text(f"and {len(behind) - MOST_GROUPS} more with less lag", "dim"))
    return lines


def _named(part: Part, column: int) -> Text:
    name = _name(part)
    number = f"-{part['partition']}"
    short = name if len(name) < column else f"{part['topic'][: column - len(number) - 2]}…{number}"
    return Text(f"{short:<{column}}", OUT if _by_trouble(part)[0] else "")


def _name(part: Part) -> str:
    return f"{part['topic']}-{part['partition']}"


def _by_trouble(part: Part) -> tuple[int, str, int]:
    """What cannot be written with acks=all before what only lacks replicas."""
    members = len(part.get("isr", ()))
    rank = -2 if members < part.get("min_isr", 0) else -1 if members < len(part["replicas"]) else 0
    return rank, part["topic"], part["partition"]
