"""Many small files into few large ones: which of them go together. Numbers in, names out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

FEWEST = 4
"""Fewer files than this are not worth a commit of their own."""


class SmallFile(NamedTuple):
    location: str
    size: int


def groups(files: Iterable[SmallFile], target: int) -> Iterator[list[SmallFile]]:
    """Files below half of the target, in the order given, in groups that are together about as large as the target.

    A file that is large enough already stays as it is, so nothing is rewritten again and again.
    """
    group: list[SmallFile] = []
    for file in files:
        if file.size >= target // 2:
            continue
        group.append(file)
        if sum(each.size for each in group) >= target:
            if len(group) >= FEWEST:
                yield group
            group = []
    if len(group) >= FEWEST:
        yield group
