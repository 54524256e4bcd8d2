# Part of _fast.pyx: records to Arrow columns. Room for the next records is made before they are read, so that the loop
# over them runs without Python.

cdef Py_ssize_t STEP = 1 << 20  # of room: every column might need all of it, and few need any

cdef enum:
    MALFORMED = -1
    AT_END = 0
    FULL = 1
    NO_ROOM = 2

cdef class Growing:
    """An Arrow buffer that grows; `at` is valid until the next `reserve`."""
    cdef object buffer
    cdef uint8_t* at
    cdef Py_ssize_t capacity

    def __init__(self):
        import pyarrow

        self.buffer = pyarrow.allocate_buffer(0, resizable=True)
        self.capacity = 0
        self.at = NULL
        self.reserve(64)

    cdef int reserve(self, Py_ssize_t size) except -1:
        if size > self.capacity:
            self.capacity = max(size, 2 * self.capacity)
            self.buffer.resize(self.capacity)
            self.at = <uint8_t*><size_t>self.buffer.address
        return 0

    cdef object cut(self, Py_ssize_t size):
        self.buffer.resize(size, shrink_to_fit=True)
        return self.buffer


cdef class Binary:
    """A nullable column of byte strings: validity bits, 32-bit offsets, data."""
    cdef Growing valid, ends, data
    cdef uint8_t* bits
    cdef int32_t* end
    cdef uint8_t* bytes
    cdef Py_ssize_t rows, nulls
    cdef bint ascii

    def __init__(self):
        self.valid, self.ends, self.data = Growing(), Growing(), Growing()
        self.rows = self.nulls = 0
        self.ascii = True
        (<int32_t*>self.ends.at)[0] = 0

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        """Make room for so many more rows and bytes."""
        self.valid.reserve((self.rows + rows + 7) // 8)
        self.ends.reserve((self.rows + rows + 1) * 4)
        self.bits, self.end = self.valid.at, <int32_t*>self.ends.at
        self.data.reserve(self.end[self.rows] + size)
        self.bytes = self.data.at
        return 0

    cdef inline void add(self, Span span) noexcept nogil:
        cdef int32_t used = self.end[self.rows]
        if self.rows & 7 == 0:
            self.bits[self.rows >> 3] = 0
        if span.length < 0:
            self.nulls += 1
        else:
            memcpy(self.bytes + used, span.at, span.length)
            used += span.length
            self.bits[self.rows >> 3] |= <uint8_t>(1 << (self.rows & 7))
        self.rows += 1
        self.end[self.rows] = used

    cdef inline void add_name(self, Span span) noexcept nogil:
        cdef int32_t i
        for i in range(span.length):
            if span.at[i] >= 0x80:
                self.ascii = False
        self.add(span)

    cdef object array(self, kind):
        import pyarrow

        cdef Py_ssize_t size = (<int32_t*>self.ends.at)[self.rows]
        valid = self.valid.cut((self.rows + 7) // 8) if self.nulls else None
        buffers = [valid, self.ends.cut((self.rows + 1) * 4), self.data.cut(size)]
        return pyarrow.Array.from_buffers(kind, self.rows, buffers, null_count=self.nulls)

    cdef object names(self):
        """The column as text; names that are not UTF-8 get replacement characters."""
        import pyarrow

        if self.ascii:
            return self.array(pyarrow.string())
        raw = self.array(pyarrow.binary())
        return pyarrow.array([name.decode("utf-8", "replace") for name in raw.to_pylist()], pyarrow.string())


cdef class Table:
    """One Arrow batch in the making."""
    cdef Growing offsets, timestamps, types, header_ends
    cdef Binary keys, values, names, contents
    cdef Py_ssize_t rows, used, room, row_room, next_size, batch_bytes, batch_rows
    cdef int64_t start, end
    cdef bint with_keys, with_values, with_headers

    def __init__(self, wanted):
        (self.start, self.end, self.with_keys, self.with_values, self.with_headers,
         self.batch_bytes, self.batch_rows) = wanted
        self.batch_bytes = min(self.batch_bytes, COLUMN_LIMIT)
        self.offsets, self.timestamps, self.types = Growing(), Growing(), Growing()
        self.header_ends = Growing()
        self.keys, self.values, self.names, self.contents = Binary(), Binary(), Binary(), Binary()
        (<int32_t*>self.header_ends.at)[0] = 0

    cdef bint add(self, Cursor cursor) except -1:
        """Takes records until the cursor's end; True where the batch is full before that."""
        cdef int state
        self.next_size = 0
        while True:
            self.reserve(cursor, max(self.next_size, min(cursor.end - cursor.p, STEP)))
            with nogil:
                state = self.fill(cursor)
            if state == MALFORMED:
                raise malformed()
            if state != NO_ROOM:
                return state == FULL

    cdef int reserve(self, Cursor cursor, Py_ssize_t size) except -1:
        """Make room for so many more bytes of records. A record takes 7 of them at least, and a header 2."""
        cdef Py_ssize_t rows = max(1, min(cursor.left, size // MIN_RECORD_BYTES))
        self.room = self.used + size
        self.row_room = self.rows + rows
        self.offsets.reserve(self.row_room * 8)
        self.timestamps.reserve(self.row_room * 8)
        self.types.reserve(self.row_room * 4)
        if self.with_keys:
            self.keys.reserve(rows, size)
        if self.with_values:
            self.values.reserve(rows, size)
        if self.with_headers:
            self.header_ends.reserve((self.row_room + 1) * 4)
            self.names.reserve(size // 2, size)
            self.contents.reserve(size // 2, size)
        return 0

    cdef int fill(self, Cursor cursor) noexcept nogil:
        cdef int64_t* offsets = <int64_t*>self.offsets.at
        cdef int64_t* timestamps = <int64_t*>self.timestamps.at
        cdef int32_t* types = <int32_t*>self.types.at
        cdef int64_t offset
        cdef Py_ssize_t size
        cdef Bytes begin
        cdef int more
        while True:
            begin = cursor.p
            more = cursor.step()
            if more <= 0:
                return more
            offset = cursor.offset()
            if offset < self.start or offset >= self.end:
                continue
            size = cursor.p - begin
            if self.rows and (self.used + size > self.batch_bytes or self.rows >= self.batch_rows):
                cursor.back(begin)
                return FULL
            if self.used + size > self.room or self.rows >= self.row_room:
                cursor.back(begin)
                self.next_size = size
                return NO_ROOM
            offsets[self.rows] = offset
            timestamps[self.rows] = microseconds(cursor.timestamp())
            types[self.rows] = cursor.timed
            if self.with_keys:
                self.keys.add(cursor.record.key)
            if self.with_values:
                self.values.add(cursor.record.value)
            if self.with_headers and self.add_headers(cursor) < 0:
                return MALFORMED
            self.rows += 1
            self.used += size

    cdef int add_headers(self, Cursor cursor) noexcept nogil:
        cdef Bytes p = cursor.record.headers
        cdef Span key, value
        cdef int32_t i
        for i in range(cursor.record.header_count):
            p = read_header(p, cursor.p, &key, &value)
            if p == NULL:
                return -1
            self.names.add_name(key)
            self.contents.add(value)
        (<int32_t*>self.header_ends.at)[self.rows + 1] = <int32_t>self.names.rows
        return 0

    cdef object batch(self, schema):
        import pyarrow

        arrays = {}
        for name, column, width in (
            ("offset", self.offsets, 8), ("timestamp", self.timestamps, 8), ("timestamp_type", self.types, 4),
        ):
            kind = schema.field(name).type
            arrays[name] = pyarrow.Array.from_buffers(kind, self.rows, [None, (<Growing>column).cut(self.rows * width)])
        if self.with_keys:
            arrays["key"] = self.keys.array(pyarrow.binary())
        if self.with_values:
            arrays["value"] = self.values.array(pyarrow.binary())
        if self.with_headers:
            kind = schema.field("headers").type
            header = kind.value_type
            cells = pyarrow.StructArray.from_arrays(
                [self.names.names(), self.contents.array(pyarrow.binary())], fields=[header.field(0), header.field(1)]
            )
            ends = self.header_ends.cut((self.rows + 1) * 4)
            arrays["headers"] = pyarrow.Array.from_buffers(kind, self.rows, [None, ends], children=[cells])
        return pyarrow.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


cdef inline int64_t microseconds(int64_t milliseconds) noexcept nogil:
    """Times a thousand, held at the ends of the range."""
    if milliseconds > INT64_MAX // 1000:
        return INT64_MAX
    if milliseconds < -(INT64_MAX // 1000):
        return INT64_MIN
    return milliseconds * 1000


def columns(sections, wanted):
    cdef Table table = Table(wanted)
    cdef Cursor cursor
    schema = contract.schema(wanted)
    for section in sections:
        cursor = Cursor(section)
        section = None
        while table.add(cursor):
            yield table.batch(schema)
            table = Table(wanted)
        cursor = None  # so that an inflated section is gone before the next is made
    if table.rows:
        yield table.batch(schema)
