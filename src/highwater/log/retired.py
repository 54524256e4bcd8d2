"""Directories of partitions that are out of service. They are deleted, or kept while they may be the last copy.

Their names end with `-delete` or `-stray`. Kafka, too, knows by these names that they are no partition of a topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from pathlib import PurePath

from highwater.log import names
from highwater.log.truncation import remove_files
from highwater.model import Offset, TopicPartition, Uuid
from highwater.world import Disk, Exhausted, Step, Timer, World

AGAIN_SECONDS = 1.0
_log = logging.getLogger(__name__)


def remove_directory(disk: Disk, directory: PurePath) -> Generator[Step, None, None]:
    yield from remove_files(disk, [directory / name for name in disk.list(directory)])
    disk.rmdir(directory)
    disk.sync_dir(directory.parent)


class Retired:
    """The retired partitions of one log directory."""

    def __init__(self, world: World, directory: PurePath) -> None:
        self._world = world
        self._directory = directory
        self._random = world.random("retired")
        self._kept: dict[tuple[Uuid, int], list[PurePath]] = {}
        """Damaged copies, by topic id and partition. Another log will replace them and has not done so yet. Their names
        hold their high watermark, in the place of half of Kafka's random digits."""
        self._in_the_way: dict[TopicPartition, Timer] = {}

    def delete(self, partition: TopicPartition, directory: PurePath, delay: float) -> None:
        """Renames the directory at once, and deletes it after `delay` seconds: a reader may still use the files."""
        name = names.deleted_directory(partition, self._unique())
        self._rename(partition, directory, name, lambda aside: self.remove_later(aside, delay))

    def keep(
        self, partition: TopicPartition, topic_id: Uuid, directory: PurePath, high_watermark: Offset, delay: float
    ) -> None:
        """Renames the directory, to make room for another log, and keeps it until `let_go`. If that was called before
        the rename succeeded, the directory is deleted after `delay` seconds."""

        def kept(aside: PurePath) -> None:
            if aside in self._kept.get((topic_id, partition.partition), ()):
                _log.warning("%s: its old files are kept as %s until another copy is in sync", partition, aside)
            else:
                self.remove_later(aside, delay)

        name = names.stray_directory(partition, high_watermark, self._random.getrandbits(60))
        self.remember(topic_id, partition.partition, self._directory / name)
        self._rename(partition, directory, name, kept)

    def is_in_the_way(self, partition: TopicPartition) -> bool:
        """Whether the directory could not be renamed yet. Until then no new log can be made there."""
        return partition in self._in_the_way

    @property
    def pending(self) -> bool:
        return bool(self._in_the_way)

    def close(self) -> None:
        for timer in self._in_the_way.values():
            timer.cancel()

    def remember(self, topic_id: Uuid, index: int, directory: PurePath) -> None:
        """Remembers a directory that is kept, or is about to be."""
        self._kept.setdefault((topic_id, index), []).append(directory)

    def kept(self) -> list[tuple[Uuid, int]]:
        return list(self._kept)

    def keeps(self, topic_id: Uuid, index: int) -> bool:
        return (topic_id, index) in self._kept

    def let_go(self, topic_id: Uuid, index: int, delay: float, end: Offset | None = None) -> None:
        """Deletes kept copies whose high watermark is at most `end`, or all copies if `end` is None."""
        for directory in self._kept.pop((topic_id, index), ()):
            if end is not None and names.stray_high_watermark(directory.name) > end:
                self.remember(topic_id, index, directory)
                continue
            _log.info("%s is not needed any more, and deleted", directory)
            self.remove_later(directory, delay)

    def _unique(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def _rename(
        self, partition: TopicPartition, directory: PurePath, name: str, then: Callable[[PurePath], None]
    ) -> None:
        """Tries again until it succeeds: the next log of this name waits for it."""
        aside = self._directory / name
        try:
            self._world.disk.rename(directory, aside)
        except FileNotFoundError:
            _log.error("%s is gone: its directory %s was removed by another program", partition, directory)
            self._in_the_way.pop(partition, None)
            return
        except OSError as failed:
            if partition not in self._in_the_way:
                _log.error("%s: its directory could not be renamed yet, and that is tried again: %s", partition, failed)
            again = self._world.clock.call_later(AGAIN_SECONDS, self._rename, partition, directory, name, then)
            self._in_the_way[partition] = again
            return
        self._in_the_way.pop(partition, None)
        then(aside)

    def remove_later(self, directory: PurePath, delay: float) -> None:
        self._world.clock.call_later(delay, self._remove, remove_directory, directory)

    def remove_files_later(self, files: list[PurePath], delay: float) -> None:
        """Deletes renamed files after `delay` seconds: a reader may still use them."""
        self._world.clock.call_later(delay, self._remove, remove_files, files)

    def _remove(self, job: Callable[..., Generator[Step, None, None]], *args: object) -> None:
        def removed(result: Exception | None) -> None:
            if isinstance(result, Exhausted):
                self._world.clock.call_later(AGAIN_SECONDS, self._remove, job, *args)
            elif result is not None and not isinstance(result, FileNotFoundError):
                _log.error("deleted files are left behind until the next start: %s", result)

        self._world.run(job, *args, done=removed)
