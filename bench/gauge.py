"""A page shared between a node under measurement and whoever measures it: no request, no signal, no allocation."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from struct import Struct

_WORST = Struct("d")
_WANTED_AT, _DUMPED_AT, _SIZE = 8, 9, 16


class Gauge:
    """The worst lag of the node's loop since it was last taken, and a switch for its profiler."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, _SIZE)
            self._page = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)

    def note(self, lag: float) -> None:
        if lag > _WORST.unpack_from(self._page)[0]:
            _WORST.pack_into(self._page, 0, lag)

    def take(self) -> float:
        worst: float = _WORST.unpack_from(self._page)[0]
        _WORST.pack_into(self._page, 0, 0.0)
        return worst

    @property
    def profile_wanted(self) -> bool:
        return bool(self._page[_WANTED_AT])

    @profile_wanted.setter
    def profile_wanted(self, wanted: bool) -> None:
        self._page[_WANTED_AT] = wanted

    @property
    def profile_dumped(self) -> bool:
        return bool(self._page[_DUMPED_AT])

    @profile_dumped.setter
    def profile_dumped(self, dumped: bool) -> None:
        self._page[_DUMPED_AT] = dumped
