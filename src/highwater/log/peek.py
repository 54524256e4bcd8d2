"""Two ways to read a few bytes of a file: at once or not at all on the loop, blocking in a job."""

from __future__ import annotations

from collections.abc import Callable

from highwater.world import Buffer, File


class WouldBlock(Exception):
    """The bytes are not in memory: ask again in a job. `offset` is the place that was looked for, where one was."""

    offset = -1


Peek = Callable[[File, int, int], Buffer]


def cached(file: File, pos: int, n: int) -> Buffer:
    data = file.read_cached(pos, n)
    if data is None:
        raise WouldBlock
    return data


def blocking(file: File, pos: int, n: int) -> Buffer:
    return file.read(pos, n)
