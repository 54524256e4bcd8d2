"""What an experiment shows at one moment, as plain values: a recording is a list of them. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

LANGUAGES: Final = ("en", "ko")
Fact = int | float | str


class Words(NamedTuple):
    """One text in both languages. Both have the same places for facts."""

    en: str
    ko: str

    def told(self, language: str, facts: dict[str, Fact]) -> str:
        return (self.ko if language == "ko" else self.en).format(**facts)


class Scene(NamedTuple):
    """What is told with one picture."""

    title: Words
    text: Words


@dataclass(frozen=True, slots=True)
class Lane:
    """One replica's log. Of a node that is down: as it was seen last."""

    node: int
    state: str
    """up, paused or down; or computed or simulated, which no real node has shown"""
    is_leader: bool
    epoch: int
    log_start: int
    high_watermark: int
    log_end: int
    epochs: tuple[tuple[int, int], ...]
    """(epoch, first offset)"""
    in_isr: bool
    lag: int = 0
    lag_ms: int = 0
    """For a follower out of the ISR: how far it is behind, and for how long."""
    limit_ms: int = 0
    label: Words | None = None
    """For what is computed or simulated: what it is."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """One fetch of a follower whose answer had news."""

    ms: float
    """After the first one that is shown."""
    follower: int
    offset: int
    high_watermark: int
    size: int


@dataclass(frozen=True, slots=True)
class Read:
    """One fetch of a consumer, and its answer."""

    node: int
    is_leader: bool
    offset: int
    records: int
    high_watermark: int
    preferred: int = -1
    """The follower to which the leader sends the consumer; -1 if to none."""
    error: str = ""


Heading = str | Words


@dataclass(frozen=True, slots=True)
class Frame:
    title: Words
    text: Words
    facts: dict[str, Fact]
    lanes: tuple[Lane, ...] = ()
    fetches: tuple[Fetch, ...] = ()
    reads: tuple[Read, ...] = ()
    files: tuple[tuple[Heading, str], ...] = ()
    """(name, content) of files and outputs that are shown as they are"""
    kind: str = "step"
    """step, lost or mistake: what was lost and why, and what the text has wrong or out of date"""


@dataclass(frozen=True, slots=True)
class Recording:
    experiment: str
    title: Words
    frames: list[Frame] = field(default_factory=list)

    def lines(self) -> list[str]:
        """As JSON lines: the head, then the frames."""
        head = {"experiment": self.experiment, "title": self.title, "version": 1}
        return [json.dumps(each, ensure_ascii=False) for each in (head, *map(asdict, self.frames))]


class NotARecording(ValueError):
    pass


def recorded(text: str) -> Recording:
    """Raises NotARecording."""
    try:
        head, *rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        recording = Recording(str(head["experiment"]), Words(*head["title"]))
        recording.frames.extend(_frame(row) for row in rows)
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise NotARecording(f"this is no recording of `highwater lab run --record`: {wrong}") from wrong
    return recording


def _frame(row: dict[str, Any]) -> Frame:
    lanes = []
    for lane in row["lanes"]:
        label = None if lane["label"] is None else Words(*lane["label"])
        epochs = tuple((epoch, start) for epoch, start in lane["epochs"])
        lanes.append(Lane(**{**lane, "epochs": epochs, "label": label}))
    return Frame(
        Words(*row["title"]),
        Words(*row["text"]),
        dict(row["facts"]),
        tuple(lanes),
        tuple(Fetch(**each) for each in row["fetches"]),
        tuple(Read(**each) for each in row.get("reads", ())),
        tuple((Words(*name) if isinstance(name, list) else name, content) for name, content in row["files"]),
        str(row["kind"]),
    )
