"""The partitions in `highwater status`: a line for each, trouble first, and below it the followers that are behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from highwater.cli.status_quorum import ids
from highwater.cli.status_topics import Part

HEADS: Final = ("partition", "leader", "epoch", "log start", "watermark", "log end", "min ISR", "replicas")
LEFT_OUT: Final = ("min ISR", "log start", "leader")
"""On a narrow terminal, in this order."""
INDENT: Final = 4
_WELL: Final = 2
_LEAST_NAME: Final = 12


class PartitionList:
    """Drawn for the width that there is."""

    def __init__(self, leading: Sequence[Part], silent: Sequence[Part], none: Sequence[Part]) -> None:
        """`silent`: as a follower sees them, since their leader does not answer. `none`: those without a leader."""
        rows = [(_leaderless(part), _candidates(part)) for part in none]
        rows += [(_silent(part), [Text("the leader does not answer; offsets of a follower", "red")]) for part in silent]
        rows += [(_led(part), list(_behind(part))) for part in sorted(leading, key=_by_trouble)]
        self.rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = list(HEADS)
        widths = [max(len(head), *(len(cells[at]) for cells, _ in self.rows)) for at, head in enumerate(HEADS)]
        kept = list(range(len(heads)))
        for name in LEFT_OUT:
            if _total(widths, kept) - widths[0] + min(widths[0], _LEAST_NAME) > options.max_width:
                kept.remove(HEADS.index(name))
        spare = options.max_width - _total(widths, kept)
        widths[0] = max(_LEAST_NAME, widths[0] + min(0, spare))
        yield Text("Partitions", "italic")
        yield _line([Text(head, "bold") for head in heads], widths, kept)
        for cells, below in self.rows:
            yield _line(cells, widths, kept)
            for line in below:
                yield Padding(line, (0, 0, 0, INDENT))


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[at] + 2 for at in kept) - 2


def _line(cells: Sequence[Text], widths: Sequence[int], kept: Sequence[int]) -> Text:
    line = Text(no_wrap=True)
    for at in kept:
        cell, is_number = cells[at].copy(), HEADS[at] not in ("partition", "replicas")
        if len(cell) > widths[at]:  # the number of the partition stays readable
            end = cell.plain.rpartition("-")[2]
            cell = Text(f"{cell.plain[: widths[at] - len(end) - 2]}…-{end}", cell.style)
        line.append_text(Text("  ") if line else Text())
        room = Text(" " * (widths[at] - len(cell)))
        line.append_text(room + cell if is_number else cell + room)
    line.rstrip()
    return line


def _led(part: Part) -> list[Text]:
    rank = _by_trouble(part)[0]
    min_isr = Text(str(part["min_isr"]), "red" if rank == 0 else "")
    return [Text(_name(part), "red" if rank < _WELL else ""), *_numbers(part), min_isr, _replicas(part)]


def _silent(part: Part) -> list[Text]:
    """A follower does not know the ISR."""
    leader, *numbers = _numbers(part)
    return [Text(_name(part), "red"), Text(f"{leader}?", "red"), *numbers, Text(), Text(ids(part["replicas"]))]


def _leaderless(part: Part) -> list[Text]:
    return [Text(_name(part), "red"), Text("none", "red"), *(Text(),) * 5, _replicas(part)]


def _numbers(part: Part) -> list[Text]:
    fields = ("leader", "leader_epoch", "log_start", "high_watermark", "log_end")
    return [Text(str(part[name])) for name in fields]


def _candidates(part: Part) -> list[Text]:
    may_lead = ids(sorted({*part["isr"], *part["eligible"]}))
    return [Text(f"may lead cleanly: {may_lead}") if may_lead else Text("may lead cleanly: none", "red")]


def _replicas(part: Part) -> Text:
    """In the order of the assignment: the leader with a star, those out of sync with an exclamation mark."""
    text = Text()
    for each in part["replicas"]:
        text.append(" " if text else "").append(str(each))
        if each == part.get("leader"):
            text.append("★", "yellow")
        elif each not in part["isr"]:
            text.append("!", "red")
    return text


def _behind(part: Part) -> Iterator[Text]:
    """Only those that are behind or out of sync."""
    for each in part["followers"]:
        records = "an unknown number of" if each["lag"] is None else each["lag"]
        behind = f"{records} records, {each['lag_ms']} ms"
        if not each["in_isr"]:
            yield Text.assemble((f"{each['id']} out of sync", "red"), f": {behind}: {each['why'] or ''}")
        elif each["lag"]:
            yield Text(f"{each['id']}: {behind}")


def _name(part: Part) -> str:
    return f"{part['topic']}-{part['partition']}"


def _by_trouble(part: Part) -> tuple[int, str, int]:
    in_sync = len(part["isr"])
    rank = 0 if in_sync < part["min_isr"] else 1 if in_sync < len(part["replicas"]) else _WELL
    return rank, part["topic"], part["partition"]
