"""Which JSON values do not look like rows of a schema: found by one pattern, for all values at once.

Arrow reads a whole block or nothing of it, and it names one offender at a time or none. So where a block was refused,
the values that a pattern finds odd are taken out and read by hand, and the rest is tried again. The pattern is a guess:
what it takes out in vain is read by hand and fits, what it misses is found by trying (`json_values`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

_NO_DAY = (
    r'[^"n\s]|"(?:[^0-9]|[0-9]{1,3}[^0-9]|[0-9]{4}[^-]|[^"]{0,9}"|[^"]*[^-+:.0-9TZ "]'
    r"|[0-9]{4}-(?:00|1[3-9]|[2-9]|[0-9]{2}[^-]|[0-9]{2}-(?:00|3[2-9]|[4-9])|02-(?:29|3)|(?:0[469]|11)-31))"
)
"""The 29th of February among them: it is rare enough to be looked at."""
_BY_KIND = (
    (pa.types.is_boolean, r"[^tfn\s]"),
    (pa.types.is_string, r'[^"n\s]'),
    (pa.types.is_floating, r"[^-0-9NIn\s]"),
    (pa.types.is_timestamp, _NO_DAY + r'|"[^"]{10}.(?:2[4-9]|[3-9])'),
    (pa.types.is_date, _NO_DAY + '|"[^"]{11}'),
    (pa.types.is_struct, r"[^{n\s]"),
    (pa.types.is_list, r"[^\[n\s]"),
)
"""How a value begins that is none of the kind; all of them may be null. Space before it is not the value."""


class OddValues:
    """Of one schema, whose fields are found by their names wherever they stand."""

    def __init__(self, schema: pa.Schema) -> None:
        names: dict[str, list[str]] = {}
        for field in _fields(schema):
            names.setdefault(_odd(field.type), []).append(re.escape(json.dumps(field.name, ensure_ascii=False)))
        self._pattern = "|".join(rf"(?:{'|'.join(named)})\s*:\s*(?:{odd})" for odd, named in names.items())

    def find(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """One flag per value."""
        return pc.match_substring_regex(values, self._pattern)


def _fields(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """With those of structs, and of structs in lists."""
    for field in fields:
        yield field
        kind = field.type
        while pa.types.is_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            yield from _fields(kind)


def _odd(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        limit = str(1 << (kind.bit_width - 1))
        return rf"[^-0-9n\s]|-?[0-9]+[.eE]|-?(?:[0-9]{{{len(limit) + 1}}}|[{limit[0]}-9][0-9]{{{len(limit) - 1}}})"
    if pa.types.is_decimal(kind):
        whole = kind.precision - kind.scale
        return rf'[^-0-9"n\s]|"?-?[0-9]{{{whole + 1}}}|"?-?[0-9]*\.[0-9]{{{kind.scale + 1}}}|"[^"]*[^-+.0-9eE"]'
    return next(odd for is_kind, odd in _BY_KIND if is_kind(kind))
