"""Two ways to read a few bytes of a file: on the event loop only if they are in memory, in a job by blocking."""

from __future__ import annotations

from collections.abc import Callable

from highwater.world import Buffer, File


class WouldBlock(Exception):
    """The bytes are not in memory: read them in a job. `offset` is the offset that was looked up, if any."""

    offset = -1


Peek = Callable[[File, int, int], Buffer]


def cached(file: File, pos: int, n: int) -> Buffer:
    data = file.read_cached(pos, n)
    if data is None:
        raise WouldBlock
    return data


def blocking(file: File, pos: int, n: int) -> Buffer:
    return file.read(pos, n)
