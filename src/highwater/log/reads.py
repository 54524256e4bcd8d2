"""Finds the bytes for a reader in the files, and decides which of them must be checked when they are sent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, TypeVar

from highwater.errors import Code, KafkaError
from highwater.log.integrity import BatchCheck, Damaged, Freshness
from highwater.log.lookup import locate
from highwater.log.peek import Peek, WouldBlock
from highwater.log.places import Place, Places
from highwater.log.scan import BadBatch
from highwater.log.segment import Segment
from highwater.model import Offset
from highwater.world import EXHAUSTED_SECONDS, Exhausted, FileSlice, Job, Step, World
from highwater.world import Place as Where

if TYPE_CHECKING:
    from highwater.log.log import Log

T = TypeVar("T")


class Stale(Exception):
    """The segments changed while a job read them, so its result is not valid for the log."""


class Reads:
    """The reads of one log. Known positions are forgotten when the segments change."""

    def __init__(self, world: World, log: Log) -> None:
        self._world = world
        self._monotonic = world.clock.monotonic
        self._log = log
        self._places = Places()
        self._freshness = Freshness()
        self.layout = 0
        """Changes with the segments. A position that was looked up before is useless then, and errors in files that
        were cut or deleted are no damage."""
        self.damage: dict[Offset, Damaged] = {}
        """For each damaged segment, the position from which on it is not readable."""

    def written(self, base_offset: Offset, place: Place) -> None:
        self._places.written(base_offset, place)
        self._freshness.written(place.segment, place.position, self._monotonic())

    def forget(self, gone: Iterable[Segment] = ()) -> None:
        """The segments have changed. Known damage is kept, except for the segments that are gone."""
        self._places.clear()
        self.layout += 1
        for segment in gone:
            self.damage.pop(segment.base_offset, None)

    def forget_beyond(self, position: int) -> None:
        """The last segment was cut at `position`."""
        last = self._log.active.base_offset
        if last in self.damage and self.damage[last].position >= position:
            del self.damage[last]

    def slices(self, offset: Offset, max_bytes: int, limit: Offset, at_least_one: bool, peek: Peek) -> list[FileSlice]:
        """As `Log.read`, for an offset within the log. Raises BadBatch if the bytes there are no batch."""
        place = self._find(offset, peek)
        if place is None:
            return []
        log = self._log
        at = log.segment_of(place.segment)
        segment = log.segments[at]
        end, high = segment.size, log.end_of(at)
        if limit < high:
            last = self._find(limit, peek)
            if last is not None and last.segment == place.segment:
                end = last.position
        damage = self.damage.get(place.segment)
        if damage is not None:
            if place.position >= damage.position:
                # The reader may find another copy at another replica. If this is the only copy, it gets
                # CORRUPT_MESSAGE.
                code = Code.CORRUPT_MESSAGE if log.is_only_copy() else Code.KAFKA_STORAGE_ERROR
                raise KafkaError(code, f"{log.partition}: {damage}")
            end = min(end, damage.position)
        size = min(end - place.position, max(max_bytes, place.size) if at_least_one else max_bytes)
        if size < place.size:
            return []  # the reader cannot use a first batch that is cut off
        return [FileSlice(segment.file, place.position, size, log.generation, self._check(segment, place, high))]

    def _check(self, segment: Segment, place: Place, high: Offset) -> BatchCheck | None:
        """None if the bytes were just written. Most readers read those."""
        if self._freshness.holds(place.segment, place.position, self._monotonic()):
            return None
        layout = self.layout

        def bad(batch: BadBatch) -> None:
            if layout == self.layout:
                self._log.found_damaged(batch)

        return BatchCheck(segment.file.path, place.position, segment.base_offset, high, bad)

    def _find(self, offset: Offset, peek: Peek) -> Place | None:
        """The batch that contains `offset`, or the first one after it."""
        known = self._places.get(offset)
        if known is not None:
            return known
        log = self._log
        try:
            for segment in log.segments[log.segment_of(offset) :]:
                found = segment.locate(offset, peek)
                if found is not None:
                    return Place(segment.base_offset, found.position, found.size)
        except WouldBlock as blocked:
            blocked.offset = offset
            raise
        return None

    def locate_later(self, offset: Offset, done: Callable[[], None]) -> None:
        """After `WouldBlock`: looks the position up in a job. The same read succeeds when `done` is called."""
        log, layout = self._log, self.layout

        def located(result: Place | Exception | None) -> None:
            if isinstance(result, Exhausted):
                self._world.clock.call_later(EXHAUSTED_SECONDS, done)
                return
            if isinstance(result, Exception) and not isinstance(result, (OSError, BadBatch, Stale)):
                log.storage_failed(result)
            if isinstance(result, Place) and layout == self.layout:
                self._places.located(offset, result)
            done()

        self.look(locate, log.segments[log.segment_of(offset) :], offset, done=located, where="reading")

    def look(
        self,
        job: Callable[..., Generator[Step, None, T]],
        *args: object,
        done: Callable[[T | Exception], None],
        step: Callable[[Step], None] | None = None,
        where: Where,
    ) -> Job:
        """Runs a job that reads the log's files. If the job fails, the log notes the damage or the failed disk. But if
        the segments have changed meanwhile, only `done` is called, with `Stale`."""
        log, layout = self._log, self.layout

        def ended(result: T | Exception) -> None:
            if isinstance(result, Exception):
                if layout != self.layout:
                    result = Stale(f"{log.partition}: its segments have changed")
                elif isinstance(result, OSError):
                    log.read_failed(result)
                elif isinstance(result, BadBatch):
                    log.found_damaged(result)
            done(result)

        return self._world.run(job, *args, done=ended, step=step, where=where)
