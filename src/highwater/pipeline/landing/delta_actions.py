"""What an entry of Delta's log says of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.pipeline.landing.statistics import delta_statistics
from highwater.pipeline.landing.table import StagedFile

if TYPE_CHECKING:
    from deltalake.transaction import AddAction


def added(file: StagedFile, values: Mapping[str, str | None], now: int, *, is_change: bool) -> AddAction:
    """Of partitions the values count, and not the path: all files lie in one folder."""
    from deltalake.transaction import AddAction

    name = Path(file.location).name
    return AddAction(name, file.size, values, now, is_change, delta_statistics(file.rows, file.ranges))
