# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The kernel in C speed. Its meaning is `pure`, to which tests hold it equal.

Memory safety rests on one function, `parse`: it alone reads lengths from hostile bytes, compares each with what is
left of the record, and hands out only spans that lie inside it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from highwater.kernel import contract
from highwater.kernel.contract import BadRecords, Record

cdef object new_tuple = tuple.__new__
cdef int KEY_MISSING = contract.KEY_MISSING
cdef int TIMESTAMP_OUT_OF_RANGE = contract.TIMESTAMP_OUT_OF_RANGE
cdef Py_ssize_t MAX_FAULTS = contract.MAX_FAULTS
cdef Py_ssize_t MIN_RECORD_BYTES = contract.MIN_RECORD_BYTES
cdef Py_ssize_t COLUMN_LIMIT = contract.COLUMN_LIMIT

ctypedef const uint8_t* Bytes

cdef struct Span:
    Bytes at
    int32_t length  # negative: null

cdef struct Parsed:
    int64_t timestamp_delta
    int32_t offset_delta
    Span key
    Span value
    Bytes headers
    int32_t header_count


cdef inline Bytes read_varint(Bytes p, Bytes end, int32_t* out) noexcept nogil:
    """A zig-zag int32 of at most five bytes, or NULL. Surplus bits of the fifth fall away, as they do in Java."""
    cdef uint32_t raw = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift <= 28:
        if p >= end:
            return NULL
        byte = p[0]
        p += 1
        raw |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
            return p
        shift += 7
    return NULL


cdef inline Bytes read_varlong(Bytes p, Bytes end, int64_t* out) noexcept nogil:
    cdef uint64_t raw = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift <= 63:
        if p >= end:
            return NULL
        byte = p[0]
        p += 1
        raw |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            return p
        shift += 7
    return NULL


cdef inline Bytes read_span(Bytes p, Bytes end, Span* out) noexcept nogil:
    p = read_varint(p, end, &out.length)
    if p == NULL or out.length > end - p:
        return NULL
    out.at = p
    return p + out.length if out.length > 0 else p


cdef inline Bytes read_header(Bytes p, Bytes end, Span* key, Span* value) noexcept nogil:
    p = read_span(p, end, key)
    if p == NULL or key.length < 0:
        return NULL
    return read_span(p, end, value)


cdef Bytes parse(Bytes p, Bytes end, Parsed* out) noexcept nogil:
    """The record at `p`; gives where the next one begins, or NULL if it is malformed or runs over `end`."""
    cdef int32_t size, i
    cdef Span key, value
    cdef Bytes stop
    p = read_varint(p, end, &size)
    if p == NULL or size <= 0 or size > end - p:
        return NULL
    stop = p + size
    p = read_varlong(p + 1, stop, &out.timestamp_delta)
    if p == NULL:
        return NULL
    p = read_varint(p, stop, &out.offset_delta)
    if p == NULL:
        return NULL
    p = read_span(p, stop, &out.key)
    if p == NULL:
        return NULL
    p = read_span(p, stop, &out.value)
    if p == NULL:
        return NULL
    p = read_varint(p, stop, &out.header_count)
    if p == NULL or out.header_count < 0:
        return NULL
    out.headers = p
    for i in range(out.header_count):  # each takes two bytes or more, so `stop` bounds the loop
        p = read_header(p, stop, &key, &value)
        if p == NULL:
            return NULL
    return p if p == stop else NULL


cdef inline int64_t sum64(int64_t a, int64_t b) noexcept nogil:
    """Addition that wraps, as Java's does."""
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef class Cursor:
    """A section whose bytes are held while it is read record by record."""
    cdef Py_buffer view
    cdef bint held
    cdef Bytes p
    cdef Bytes end
    cdef int32_t left
    cdef int64_t base_offset, base_timestamp, append_time
    cdef bint timed
    cdef Parsed record

    def __init__(self, section):
        data, count, base_offset, base_timestamp, append_time = section
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.held = True
        self.p = <Bytes>self.view.buf
        self.end = self.p + self.view.len
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.timed = append_time is not None
        self.append_time = append_time if self.timed else 0
        self.left = count
        if self.left < 0 or self.left > self.view.len // MIN_RECORD_BYTES:
            raise BadRecords("the record count does not fit the size")

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef inline int step(self) noexcept nogil:
        """1 with the next record in `record`, 0 after the last, -1 where the bytes are bad."""
        if self.left == 0:
            return 0 if self.p == self.end else -1
        self.left -= 1
        self.p = parse(self.p, self.end, &self.record)
        return -1 if self.p == NULL else 1

    cdef inline void back(self, Bytes begin) noexcept nogil:
        """To the record that began there, which is the last that was read."""
        self.p = begin
        self.left += 1

    cdef inline int64_t offset(self) noexcept nogil:
        return sum64(self.base_offset, self.record.offset_delta)

    cdef inline int64_t timestamp(self) noexcept nogil:
        return self.append_time if self.timed else sum64(self.base_timestamp, self.record.timestamp_delta)


cdef object malformed():
    return BadRecords("a record is malformed, or the records do not fill the batch")


def validate_records(section, int64_t low, int64_t high, bint keys_required):
    cdef Cursor cursor = Cursor(section)
    cdef int64_t largest = -1, timestamp = -1
    cdef int32_t index = 0
    cdef int more, kind
    cdef list faults = []
    while True:
        with nogil:
            kind = 0
            while True:
                more = cursor.step()
                if more <= 0:
                    break
                if cursor.record.offset_delta != index:
                    more = -2
                    break
                timestamp = cursor.timestamp()
                index += 1
                if timestamp > largest:
                    largest = timestamp
                if keys_required and cursor.record.key.length < 0:
                    kind = KEY_MISSING
                    break
                if timestamp != -1 and (timestamp < low or timestamp > high):
                    kind = TIMESTAMP_OUT_OF_RANGE
                    break
        if more == 0:
            return largest, faults
        if more == -2:
            raise BadRecords("offset deltas are not consecutive")
        if more < 0:
            raise malformed()
        if len(faults) < MAX_FAULTS:
            faults.append((index - 1, kind, timestamp))


cdef inline object taken(Span span):
    return None if span.length < 0 else PyBytes_FromStringAndSize(<const char*>span.at, span.length)


cdef list headers_of(Parsed* record, Bytes end):
    cdef list headers = []
    cdef Bytes p = record.headers
    cdef Span key, value
    cdef int32_t i
    for i in range(record.header_count):
        p = read_header(p, end, &key, &value)
        if p == NULL:
            raise malformed()
        name = PyUnicode_DecodeUTF8(<char*>key.at, key.length, "surrogateescape")
        headers.append((name, taken(value)))
    return headers


def iterate(section, int64_t start=INT64_MIN, int64_t most=INT64_MAX):
    cdef Cursor cursor = Cursor(section)
    cdef list records = []
    cdef int more
    while True:
        more = cursor.step()
        if more == 0:
            return records
        if more < 0:
            raise malformed()
        if cursor.offset() < start:
            continue
        records.append(new_tuple(Record, (
            cursor.offset(), cursor.timestamp(), taken(cursor.record.key), taken(cursor.record.value),
            headers_of(&cursor.record, cursor.p),
        )))
        if len(records) == most:
            return records


def find_timestamp(section, int64_t timestamp, int64_t start):
    cdef Cursor cursor = Cursor(section)
    cdef int more
    while True:
        more = cursor.step()
        if more == 0:
            return None
        if more < 0:
            raise malformed()
        if cursor.timestamp() >= timestamp and cursor.offset() >= start:
            return cursor.offset(), cursor.timestamp()


def latest(section, int64_t start):
    cdef Cursor cursor = Cursor(section)
    cdef int64_t best_offset = 0, best_timestamp = 0
    cdef bint found = False
    cdef int more
    while True:
        more = cursor.step()
        if more == 0:
            return (best_offset, best_timestamp) if found else None
        if more < 0:
            raise malformed()
        if cursor.offset() >= start and (not found or cursor.timestamp() > best_timestamp):
            found, best_offset, best_timestamp = True, cursor.offset(), cursor.timestamp()


include "_encode.pxi"
include "_keys.pxi"
include "_columns.pxi"
