"""Which test reaches which lines, and how long it takes: measured once for each file of tests and each source."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from types import CodeType, FrameType
from typing import Any

TRACED_CALLS = 300
"""Of each function in each test: what a function does later it did before, as a rule, and tracing takes long."""


@dataclass
class Reach:
    """What one test reaches."""

    seconds: float = 0.0
    lines: dict[str, list[int]] = field(default_factory=dict)
    """By file, from the root of the tree."""

    def meets(self, file: str, first: int, last: int) -> bool:
        return any(first <= line <= last for line in self.lines.get(file, ()))


class Kept:
    """What was measured, one file of tests at a time."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self._folder = folder
        self._tree = tree
        self._source = hashlib.sha256()
        for path in sorted((tree / "src").rglob("*.py")):
            self._source.update(path.read_bytes())

    def _place(self, file: str) -> Path:
        digest = self._source.copy()
        digest.update((self._tree / file).read_bytes())
        return self._folder / f"{file.replace('/', '-')}-{digest.hexdigest()[:16]}.json"

    def of(self, file: str) -> dict[str, Reach] | None:
        try:
            content = json.loads(self._place(file).read_text())
        except FileNotFoundError:
            return None
        return {name: Reach(**reach) for name, reach in content.items()}

    def keep(self, file: str, reached: dict[str, Reach]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._place(file)
        for old in self._folder.glob(f"{file.replace('/', '-')}-*.json"):
            old.unlink()
        place.write_text(json.dumps({name: vars(reach) for name, reach in reached.items()}))


class Tracer:
    """Notes the lines of some folders that run, in every thread."""

    def __init__(self, tree: Path, folders: Sequence[str]) -> None:
        self._tree = tree
        self._prefixes = tuple(f"{tree / folder}/" for folder in folders)
        self._calls: dict[CodeType, int] = {}
        self._lines: set[tuple[CodeType, int]] = set()

    @contextmanager
    def measured(self) -> Iterator[Reach]:
        """It is filled when the block ends."""
        reach = Reach()
        self._calls.clear()
        self._lines.clear()
        begun = process_time()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield reach
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            reach.seconds = round(process_time() - begun, 3)
            by_file: dict[str, set[int]] = {}
            for code, line in self._lines:
                by_file.setdefault(str(Path(code.co_filename).relative_to(self._tree)), set()).add(line)
            reach.lines = {file: sorted(lines) for file, lines in sorted(by_file.items())}

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        calls = self._calls.get(code)
        if calls is None:
            calls = 0 if code.co_filename.startswith(self._prefixes) else TRACED_CALLS
        if calls >= TRACED_CALLS:
            self._calls[code] = calls
            return None
        self._calls[code] = calls + 1
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self._lines.add((frame.f_code, frame.f_lineno))
        return self._stepped
