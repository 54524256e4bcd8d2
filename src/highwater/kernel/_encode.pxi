# Part of _fast.pyx: records to bytes.

cdef inline int varlong_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varlong(uint8_t* p, int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while raw > 0x7F:
        p[0] = <uint8_t>(raw & 0x7F | 0x80)
        p += 1
        raw >>= 7
    p[0] = <uint8_t>raw
    return p + 1


cdef inline int64_t field_size(bytes value) except -1:
    return 1 if value is None else varlong_size(PyBytes_GET_SIZE(value)) + PyBytes_GET_SIZE(value)


cdef inline uint8_t* put_field(uint8_t* p, bytes value) noexcept:
    if value is None:
        return put_varlong(p, -1)
    p = put_varlong(p, PyBytes_GET_SIZE(value))
    memcpy(p, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return p + PyBytes_GET_SIZE(value)


cdef inline bytes plain(value):
    return value if value is None or type(value) is bytes else bytes(memoryview(value))


cdef class Output:
    """A bytearray written by pointer: room is made before, the surplus cut off at the end."""
    cdef bytearray data
    cdef Py_ssize_t used

    def __init__(self, Py_ssize_t reserve):
        self.data = bytearray(reserve)
        self.used = reserve

    cdef uint8_t* room(self, Py_ssize_t size) except NULL:
        if self.used + size > PyByteArray_GET_SIZE(self.data):
            PyByteArray_Resize(self.data, max(self.used + size, 2 * PyByteArray_GET_SIZE(self.data)))
        return <uint8_t*>PyByteArray_AS_STRING(self.data) + self.used

    cdef bytearray finished(self):
        PyByteArray_Resize(self.data, self.used)
        return self.data


cdef int put_record(
    Output out, int64_t timestamp_delta, int32_t offset_delta, bytes key, bytes value, list headers
) except -1:
    """`headers` lie flat in the list: name, value, name, value …"""
    cdef int64_t header_count = len(headers) // 2
    cdef int64_t body = (
        1 + varlong_size(timestamp_delta) + varlong_size(offset_delta) + field_size(key) + field_size(value)
        + varlong_size(header_count)
    )
    cdef uint8_t* p
    cdef uint8_t* start
    for field in headers:
        body += field_size(<bytes>field)
    if body > INT32_MAX:
        raise OverflowError("a record is larger than 2 GiB")
    start = out.room(<Py_ssize_t>(body + varlong_size(body)))
    p = put_varlong(start, body)
    p[0] = 0
    p = put_varlong(p + 1, timestamp_delta)
    p = put_varlong(p, offset_delta)
    p = put_field(p, key)
    p = put_field(p, value)
    p = put_varlong(p, header_count)
    for field in headers:
        p = put_field(p, <bytes>field)
    out.used += p - start
    return 0


def encode(records, int64_t base_timestamp, offset_deltas, Py_ssize_t reserve):
    cdef Output out = Output(reserve)
    cdef int64_t timestamp
    cdef int32_t delta = 0, index = 0
    cdef list flat
    for record in records:
        when, key, value, headers = record
        timestamp = when
        delta = index if offset_deltas is None else offset_deltas[index]
        flat = []
        for name, content in headers:
            flat.append(name.encode("utf-8", "surrogateescape"))
            flat.append(plain(content))
        put_record(out, <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp), delta, plain(key), plain(value), flat)
        index += 1
    return out.finished()
