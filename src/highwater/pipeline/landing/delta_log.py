"""The marks in a Delta table's log: `txn` actions, which outlive the log's entries and a restore of the table.

`deltalake` looks one up by its name alone; the position of a landing is all that have its prefix.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from highwater.pipeline.landing.folder import sync
from highwater.pipeline.landing.position import Interval, Log, Lost, Position, Skip
from highwater.pipeline.landing.rule import LandingError

_ENTRY = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\..+)?\.(parquet|json)")
_PREFIX = "hw1"
_RESTORE = "RESTORE"
_POINTER = "_last_checkpoint"
_NEAR = 10
NONE = -1
"""Before the first version."""


@dataclass(frozen=True)
class Marks:
    """As of one version of the table."""

    versions: dict[str, int]
    """By application id."""

    def position(self, landing_id: str) -> Position | None:
        drivers: dict[str, int] = {}
        found: dict[Log, dict[int, dict[str, int]]] = {}
        skipped: dict[Log, tuple[Skip, ...]] = {}
        lost: dict[Log, tuple[Lost, ...]] = {}
        for name, value in self.versions.items():
            match name.split("/"):
                case [start, landing, "driver", query_id] if (start, landing) == (_PREFIX, landing_id):
                    drivers[query_id] = value
                case [start, landing, "skipped", topic, topic_id, partition, begin, reason] if (start, landing) == (
                    _PREFIX,
                    landing_id,
                ):
                    log = Log(topic, topic_id, int(partition))
                    skip = Skip(int(begin), value, unquote(reason))
                    skipped[log] = tuple(sorted((*skipped.get(log, ()), skip)))
                case [start, landing, "lost", topic, topic_id, partition, begin, reason] if (start, landing) == (
                    _PREFIX,
                    landing_id,
                ):
                    log = Log(topic, topic_id, int(partition))
                    each = Lost(int(begin), value, unquote(reason))
                    lost[log] = tuple(sorted((*lost.get(log, ()), each)))
                case [start, landing, topic, topic_id, partition, index, what] if (start, landing) == (
                    _PREFIX,
                    landing_id,
                ):
                    intervals = found.setdefault(Log(topic, topic_id, int(partition)), {})
                    intervals.setdefault(int(index), {})[what] = value
        seq = self.versions.get(seq_mark(landing_id))
        if seq is None:
            return None
        return Position(seq, drivers, {log: _intervals(found[log]) for log in sorted(found)}, skipped, lost)

    def landings(self) -> list[str]:
        """All that have a position."""
        names = (name.split("/") for name in self.versions)
        return sorted(parts[1] for parts in names if len(parts) == 3 and parts[0] == _PREFIX and parts[2] == "seq")

    def has_positions(self) -> bool:
        return any(name.startswith(f"{_PREFIX}/") for name in self.versions)


def seq_mark(landing_id: str) -> str:
    return f"{_PREFIX}/{landing_id}/seq"


def position_marks(landing_id: str, position: Position) -> dict[str, int]:
    """By name. A mark stays as it is until another entry sets it, so that only those that change need be set."""
    marks = {seq_mark(landing_id): position.seq}
    marks |= {f"{_PREFIX}/{landing_id}/driver/{query_id}": number for query_id, number in position.drivers.items()}
    for log, intervals in position.at.items():
        for index, interval in enumerate(intervals):
            start = f"{_PREFIX}/{landing_id}/{log.topic}/{log.topic_id}/{log.partition}/{index}"
            marks |= {f"{start}/{what}": value for what, value in interval._asdict().items()}
    for log, skips in position.skipped.items():
        start = f"{_PREFIX}/{landing_id}/skipped/{log.topic}/{log.topic_id}/{log.partition}"
        marks |= {f"{start}/{skip.begin}/{quote(skip.reason, safe='')}": skip.end for skip in skips}
    for log, found in position.lost.items():
        start = f"{_PREFIX}/{landing_id}/lost/{log.topic}/{log.topic_id}/{log.partition}"
        marks |= {f"{start}/{each.begin}/{quote(each.reason, safe='')}": each.end for each in found}
    return marks


def _intervals(found: dict[int, dict[str, int]]) -> tuple[Interval, ...]:
    return tuple(Interval(**found[index]) for index in sorted(found))


class LogFiles(Protocol):
    """The files of a table's log, wherever they are."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes | None:
        """None where there is no such file."""

    def sync(self, names: Iterable[str]) -> None:
        """Sees to it that these files, and their names, survive a loss of power."""


@dataclass(frozen=True, slots=True)
class LogFolder:
    folder: Path

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def sync(self, names: Iterable[str]) -> None:
        for name in names:
            if (self.folder / name).exists():
                sync(self.folder / name)
        sync(self.folder)
        sync(self.folder.parent)


def entry(version: int) -> str:
    return f"{version:020}.json"


def newest(log: LogFiles, known: int) -> int:
    """The last version, after one that is there: few have come since, and the log may have very many."""
    while log.read(entry(known + 1)) is not None:
        known += 1
    return known


def marks(log: LogFiles, version: int) -> Marks:
    """Of a version that `deltalake` has found readable."""
    checkpoints = _checkpoints(log.names())
    base = max((at for at, _ in checkpoints if at <= version), default=NONE)
    versions: dict[str, int] = {}
    for at, file in checkpoints:
        if at == base:
            versions |= _checkpointed(file, log.read(file) or b"")
    for at in range(base + 1, version + 1):
        content = log.read(entry(at))
        if content is None:
            raise LandingError(f"the log of the table has no entry {entry(at)}, though its version is {version}")
        versions |= {mark["appId"]: mark["version"] for mark in _marks_of(content)}
    return Marks(versions)


def last_set(log: LogFiles, version: int, mark: str) -> tuple[int, bool]:
    """The last entry that set a mark, and whether the table was put back to an earlier version after it.

    Where the entry is gone from the log, the first one that is left stands for it.
    """
    at = version
    while at >= 0 and (content := log.read(entry(at))) is not None:
        actions = list(_actions(content))
        if any(action.get("txn", {}).get("appId") == mark for action in actions):
            return at, False
        if any(action.get("commitInfo", {}).get("operation") == _RESTORE for action in actions):
            return at, True
        at -= 1
    return at, False


def near_info(log: LogFiles, version: int, mark: str) -> tuple[int, dict[str, Any]] | None:
    """Finds which of the last few entries set a mark, and returns its commit info. Usually it is the last entry, and
    then that entry alone is enough."""
    for at in range(version, max(version - _NEAR, NONE), -1):
        if (content := log.read(entry(at))) is None:
            break
        actions = list(_actions(content))
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        if info.get("operation") == _RESTORE:
            break
        if any(action.get("txn", {}).get("appId") == mark for action in actions):
            return at, info
    return None


def _marks_of(content: bytes) -> Iterator[dict[str, Any]]:
    return (action["txn"] for action in _actions(content) if "txn" in action)


def _actions(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        if b'"txn"' in line[:20] or b'"commitInfo"' in line[:20]:
            yield json.loads(line)


def _checkpointed(name: str, content: bytes) -> dict[str, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if name.endswith(".json"):
        found = list(_marks_of(content))
    else:
        marked = pq.read_table(pa.BufferReader(content), columns=["txn"])["txn"].to_pylist()
        found = [row for row in marked if row is not None]
    return {mark["appId"]: mark["version"] for mark in found if mark["appId"] is not None}


def _checkpoints(names: Iterable[str]) -> list[tuple[int, str]]:
    found = [(_CHECKPOINT.fullmatch(name), name) for name in names]
    return [(int(match[1]), name) for match, name in found if match is not None]


def sync_entries(log: LogFiles, kept: int, version: int) -> None:
    """All that a reader of the version needs and that is not known to be on the disk: what comes after `kept`."""
    checkpoints = _checkpoints(log.names())
    base = max((at for at, _ in checkpoints if at <= version), default=NONE)
    files = [name for at, name in checkpoints if at == base] if base > kept else []
    log.sync([*files, *([_POINTER] if files else []), *map(entry, range(max(base, kept) + 1, version + 1))])


def mend(folder: Path) -> list[Path]:
    """Puts aside what a power cut left half-written at the end of the log, and returns the new paths.

    Writers make an entry appear as a whole, and this package syncs it before it reports that the batch landed. So a
    torn entry was never reported as landed. A checkpoint only repeats the entries before it.
    """
    if not folder.is_dir():
        return []
    aside = []
    for file in _torn(folder):
        aside.append(file.rename(file.with_name(f"{file.name}.torn")))
    if aside:
        sync(folder)
    return aside


def _torn(folder: Path) -> Iterator[Path]:
    names = sorted(os.listdir(folder))
    entries = [name for name in names if _ENTRY.fullmatch(name)]
    if entries and not _is_whole(folder / entries[-1]):
        yield folder / entries[-1]
    checkpoints = _checkpoints(names)
    for at, name in checkpoints:
        if at == checkpoints[-1][0] and not _is_readable(folder / name):
            yield folder / name
            if (folder / _POINTER).exists():
                yield folder / _POINTER


def _is_whole(file: Path) -> bool:
    try:
        lines = file.read_text().splitlines()
        return bool(lines) and all(isinstance(json.loads(line), dict) for line in lines)
    except ValueError:
        return False


def _is_readable(file: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.suffix == ".json":
        return _is_whole(file)
    try:
        pq.read_metadata(file)
    except pa.ArrowInvalid:
        return False
    return True
