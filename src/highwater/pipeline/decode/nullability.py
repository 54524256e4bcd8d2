"""Types without their promises that something is never null, and arrays with them again.

A cast checks such a promise also below a struct that is null, where no value is missing. So `promised` checks nothing:
its callers have checked the values before.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def relaxed(kind: pa.DataType) -> pa.DataType:
    """The same, but everything in it may be null."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, relaxed(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, relaxed(kind.value_type)))
    return kind


def promised(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array of the type `relaxed(kind)` as one of `kind`: the same buffers under another name."""
    if array.type == kind:
        return array
    valid = pc.is_valid(array).buffers()[1]
    if pa.types.is_struct(kind):
        children = [promised(array.field(index), field.type) for index, field in enumerate(kind)]
        return pa.Array.from_buffers(kind, len(array), [valid], children=children)
    offsets = pa.py_buffer(array.offsets.to_numpy())
    return pa.Array.from_buffers(kind, len(array), [valid, offsets], children=[promised(array.values, kind.value_type)])
