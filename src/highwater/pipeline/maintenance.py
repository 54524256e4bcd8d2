"""The upkeep of a pipeline's table while it runs: small files become large ones, and files that nothing needs go.

It runs beside the batches, in a thread of the driver that no batch waits for. Its commits give way to those of batches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from highwater.pipeline.sections import Section

if TYPE_CHECKING:
    from highwater.pipeline.landing.table import Table

KEYS = ("every", "file_bytes", "orphans_after")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Upkeep:
    every_seconds: float = 3600.0
    file_bytes: int = 128 << 20
    """Smaller files are gathered until they are about this large."""
    orphans_after_seconds: float = 7 * 24 * 3600.0
    """Older than any batch can take: a younger file may be named by the next commit."""

    @classmethod
    def from_section(cls, section: Section) -> Upkeep:
        """Raises Mistake."""
        usual = cls()
        return cls(
            section.seconds("every", usual.every_seconds),
            section.number("file_bytes", 1 << 20, 1 << 40) or usual.file_bytes,
            section.seconds("orphans_after", usual.orphans_after_seconds),
        )


class Maintenance:
    """Told of each finished batch; works when it is time, one piece of work at a time."""

    def __init__(self, table: Table, upkeep: Upkeep, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._upkeep = upkeep
        self._clock = clock
        self._next_at = clock() + upkeep.every_seconds
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def after_batch(self) -> None:
        """Never waits."""
        if self._clock() < self._next_at or (self._thread is not None and self._thread.is_alive()):
            return
        self._next_at = self._clock() + self._upkeep.every_seconds
        self._thread = threading.Thread(target=self._work, name="maintenance", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Waits for the commit at hand; no other is begun."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            gone = self._table.compact(self._upkeep.file_bytes, self._stopping.is_set)
            removed = []
            if not self._stopping.is_set():
                removed = self._table.clean_up(timedelta(seconds=self._upkeep.orphans_after_seconds))
            _log.info("maintenance: %d small files were made larger ones, %d old files removed", gone, len(removed))
        except Exception as error:  # noqa: BLE001 the boundary of the upkeep: the pipeline lands all the same
            _log.exception("maintenance failed, and is tried again in %g s: %s", self._upkeep.every_seconds, error)
