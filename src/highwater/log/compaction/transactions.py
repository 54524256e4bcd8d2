"""Decides which batches belong to aborted transactions, and which markers are no longer needed. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.log.producer_state import AbortedTransaction
from highwater.wire.records import Header
from highwater.wire.records.control import ControlType


class CleanedTransactions:
    """Gets every batch in order. A marker must stay as long as the data of its transaction; otherwise that transaction
    would look open again."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborting: dict[int, tuple[AbortedTransaction, bool]] = {}
        """Producer -> its aborted transaction, and whether any batch of it was seen."""
        self._committing: set[int] = set()
        self._kept: list[AbortedTransaction] = []

    def data_met(self, header: Header) -> bool:
        """Whether the batch's transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        known = self._aborting.get(header.producer_id)
        if known is None:
            self._committing.add(header.producer_id)
            return False
        self._aborting[header.producer_id] = (known[0], True)
        return True

    def marker_met(self, header: Header, kind: int | None) -> bool:
        """Whether no data of the marker's transaction is left. `kind` is None if the marker was emptied before."""
        self._begin_up_to(header.last_offset)
        if kind is None:
            return True
        if kind == ControlType.ABORT:
            known = self._aborting.pop(header.producer_id, None)
            if known is None or not known[1]:
                return True
            self._kept.append(known[0])
            return False
        if kind == ControlType.COMMIT:
            decided = header.producer_id in self._committing
            self._committing.discard(header.producer_id)
            return not decided
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Aborted transactions since the last call that readers still need, in the order of their markers."""
        kept, self._kept = self._kept, []
        return kept

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            begun = self._waiting.pop()
            self._aborting.setdefault(begun.producer_id, (begun, False))
