"""Which partition a record goes to, as Kafka's own producers decide it, for a whole column of keys at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MIXER = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)
Partitions = npt.NDArray[np.int64]


def partitions_of_keys(keys: pa.BinaryArray, partitions: int, for_null: int) -> Partitions:
    """One partition per key: murmur2, its sign bit dropped, modulo the count; records without a key stay together."""
    chosen = np.full(len(keys), for_null, dtype=np.int64)
    lengths = np.asarray(pc.fill_null(pc.binary_length(keys), -1).to_numpy(zero_copy_only=False))
    for length in np.unique(lengths):
        if length < 0:
            continue
        rows = np.flatnonzero(lengths == length)
        data = pc.binary_join(_as_list(keys.take(pa.array(rows))), b"")[0].as_buffer()
        block = np.frombuffer(data, dtype=np.uint8).reshape(len(rows), int(length))
        chosen[rows] = (_murmur2(block) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)
    return chosen


def _as_list(values: pa.BinaryArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def _murmur2(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """The 32-bit MurmurHash2 with Kafka's seed of every row; arithmetic on uint32 wraps as it should."""
    count, length = block.shape
    value = np.full(count, _SEED ^ np.uint32(length), dtype=np.uint32)
    whole = length & ~3
    words = np.ascontiguousarray(block[:, :whole]).view("<u4")
    for index in range(words.shape[1]):
        word = words[:, index] * _MIXER
        word = (word ^ (word >> np.uint32(24))) * _MIXER
        value = (value * _MIXER) ^ word
    if whole < length:
        rest = np.zeros(count, dtype=np.uint32)
        for position in range(length - whole):
            rest |= block[:, whole + position].astype(np.uint32) << np.uint32(8 * position)
        value = (value ^ rest) * _MIXER
    value = (value ^ (value >> np.uint32(13))) * _MIXER
    return value ^ (value >> np.uint32(15))
