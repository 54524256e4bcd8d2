"""A lane for each broker, with a bar for each of its replicas, as lines of one width. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from highwater.cli.demo.orders import PARTITIONS
from highwater.cli.demo.replicas import PartitionState
from highwater.cli.replica_bar import COMMITTED, DEAD, LEADER, OUT, UNCOMMITTED, WATERMARK, bar, window_for

NAME: Final = 11
PART: Final = 11
NUMBER: Final = 9
EPOCH: Final = 7
_SMALLEST: Final = 8
NARROW: Final = 60

STATES: Final = {"alive": "green", "dead": DEAD, "paused": OUT}
LEGEND: Final = (
    ("★ leader", LEADER),
    ("█ committed", COMMITTED),
    ("┃ high watermark", WATERMARK),
    ("░ not yet", UNCOMMITTED),
    ("! not in ISR", OUT),
)


def lanes(
    brokers: Mapping[int, str],
    links: Mapping[int, str],
    partitions: Sequence[PartitionState],
    chosen: int | None,
    width: int,
) -> list[Text]:
    """The state of each broker, and what was done to its links. `chosen` is marked, unless None."""
    window = window_of(partitions)
    room = max(_SMALLEST, width - NAME - PART - 2 * NUMBER - EPOCH)
    lines = [_head(window, room)]
    for broker, state in sorted(brokers.items()):
        lines += _lane(
            broker, _names(broker, state, links.get(broker), broker == chosen), partitions, window, room, state
        )
    return lines


def window_of(partitions: Sequence[PartitionState]) -> int:
    known = [each for each in partitions if each.replicas]
    return window_for(_end(each) - min(one.log_end for one in each.replicas.values()) for each in known)


def legend(width: int) -> Text:
    text = Text(no_wrap=True)
    for words, style in LEGEND:
        text.append(words[:1], style).append(words[1:], "dim").append("  " if width > NARROW else " ")
    text.rstrip()
    return text


def _head(window: int, room: int) -> Text:
    log = f"last {window:,} records" if room >= 20 else f"last {window:,}"
    text = (
        f"{'broker':<{NAME}}{'replica':<{PART}}{log:<{room}}{'committed':>{NUMBER}}{'end':>{NUMBER}}{'epoch':>{EPOCH}}"
    )
    return Text(text, "dim", no_wrap=True)


def _names(broker: int, state: str, link: str | None, is_chosen: bool) -> Iterator[Text]:
    """The first lines of a lane: the broker, its state, its links."""
    shown = {"dead": "DEAD", "paused": "PAUSED"}.get(state, state)
    yield Text(f"{'▸' if is_chosen else ' '}broker {broker}", "bold")
    yield Text(f"  {shown}", STATES.get(state, ""))
    yield Text("" if link is None else f"  {link}", OUT)


def _lane(
    broker: int, names: Iterator[Text], partitions: Sequence[PartitionState], window: int, room: int, state: str
) -> Iterator[Text]:
    for at, partition in enumerate(partitions):
        line = Text(no_wrap=True)
        line.append_text(_padded(next(names, Text()), NAME))
        replica = partition.replicas.get(broker)
        line.append_text(_padded(_part(at, partition, broker, state), PART))
        if replica is None:
            line.append("no replica seen yet"[:room], "dim")
        else:
            drawn = bar(replica.high_watermark, replica.log_end, _end(partition), window, room)
            if state == "dead":
                drawn.stylize(DEAD)
            line.append_text(drawn)
            committed = min(replica.high_watermark, replica.log_end)
            line.append(f"{committed:>{NUMBER},}{replica.log_end:>{NUMBER},}{replica.epoch:>{EPOCH}}")
        yield line


def _part(at: int, partition: PartitionState, broker: int, state: str) -> Text:
    is_leader = partition.leader == broker
    is_out = broker not in partition.in_sync
    mark, style = ("★", LEADER) if is_leader else ("!", OUT) if is_out else (" ", "")
    text = Text(f"{PARTITIONS[at]}", DEAD if state == "dead" else LEADER if is_leader else "")
    return text.append(f" {mark}", style)


def _padded(text: Text, width: int) -> Text:
    return text.append(" " * (width - text.cell_len))


def _end(partition: PartitionState) -> int:
    return max((each.log_end for each in partition.replicas.values()), default=0)
