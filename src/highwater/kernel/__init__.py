"""Single records inside an uncompressed section: check, read, write, thin out, and turn into Arrow columns.

There are two implementations with one interface: `_fast` (Cython) where it was built, `pure` elsewhere. This package
imports no other package of Highwater. `highwater.wire.records` is for whole batches, with their header, checksum and
compression.

Start with `contract`, then `pure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.kernel.contract import (
    KEY_MISSING,
    MAX_FAULTS,
    TIMESTAMP_OUT_OF_RANGE,
    BadRecords,
    Fault,
    Headers,
    NewRecord,
    Record,
    Section,
    Wanted,
)

if TYPE_CHECKING:
    from highwater.kernel.pure import columns, encode, find_timestamp, iterate, latest, validate_records
    from highwater.kernel.pure_keys import KeyTable, rebased, retain

    IMPLEMENTATION: str
else:
    try:
        from highwater.kernel._fast import (
            KeyTable,
            columns,
            encode,
            find_timestamp,
            iterate,
            latest,
            rebased,
            retain,
            validate_records,
        )

        IMPLEMENTATION = "cython"
    except ImportError:
        from highwater.kernel.pure import columns, encode, find_timestamp, iterate, latest, validate_records
        from highwater.kernel.pure_keys import KeyTable, rebased, retain

        IMPLEMENTATION = "pure"

DESCRIPTION = {
    "cython": "cython (compiled)",
    "pure": "pure (plain Python, and slower: a C compiler and Python's headers were missing when it was installed)",
}[IMPLEMENTATION]
"""For people: `highwater --version` and the log of a node name the one that runs."""

__all__ = [
    "DESCRIPTION",
    "IMPLEMENTATION",
    "KEY_MISSING",
    "MAX_FAULTS",
    "TIMESTAMP_OUT_OF_RANGE",
    "BadRecords",
    "Fault",
    "Headers",
    "KeyTable",
    "NewRecord",
    "Record",
    "Section",
    "Wanted",
    "columns",
    "encode",
    "find_timestamp",
    "iterate",
    "latest",
    "rebased",
    "retain",
    "validate_records",
]
