# Part of _fast.pyx: which record of a key is its last one, and batches without the others.

cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t next_offset  # one more than the offset, so that 0 is an empty slot

cdef struct Digest:
    uint64_t low
    uint64_t high


cdef inline uint64_t rotated(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline void sip_round(uint64_t* v) noexcept nogil:
    v[0] += v[1]; v[1] = rotated(v[1], 13) ^ v[0]; v[0] = rotated(v[0], 32)
    v[2] += v[3]; v[3] = rotated(v[3], 16) ^ v[2]
    v[0] += v[3]; v[3] = rotated(v[3], 21) ^ v[0]
    v[2] += v[1]; v[1] = rotated(v[1], 17) ^ v[2]; v[2] = rotated(v[2], 32)


cdef Digest digest_of(Span key, uint64_t k0, uint64_t k1) noexcept nogil:
    """SipHash-2-4 with 128 bits: who does not know the seed cannot make two keys pass for one."""
    cdef uint64_t[4] v
    cdef uint64_t word
    cdef Bytes p = key.at
    cdef Bytes whole = p + (key.length - key.length % 8)
    cdef int i
    cdef Digest digest
    v[0] = k0 ^ 0x736F6D6570736575U
    v[1] = k1 ^ 0x646F72616E646F6DU ^ 0xEE
    v[2] = k0 ^ 0x6C7967656E657261U
    v[3] = k1 ^ 0x7465646279746573U
    while p < whole:
        memcpy(&word, p, 8)
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
        p += 8
    word = <uint64_t>key.length << 56
    for i in range(key.length % 8):
        word |= <uint64_t>p[i] << (8 * i)
    v[3] ^= word
    sip_round(v)
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    for i in range(4):
        sip_round(v)
    digest.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for i in range(4):
        sip_round(v)
    digest.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return digest


cdef class KeyTable:
    cdef Slot* _slots
    cdef uint64_t _k0, _k1
    cdef readonly Py_ssize_t slots
    cdef readonly Py_ssize_t size

    def __cinit__(self, Py_ssize_t slots, bytes seed):
        if slots < 2 or len(seed) != 16:
            raise ValueError("a table has two slots or more, and a seed of 16 bytes")
        self._slots = <Slot*>calloc(slots, sizeof(Slot))
        if self._slots == NULL:
            raise MemoryError
        self.slots = slots
        memcpy(&self._k0, PyBytes_AS_STRING(seed), 8)
        memcpy(&self._k1, PyBytes_AS_STRING(seed) + 8, 8)

    def __dealloc__(self):
        free(self._slots)

    cdef inline Slot* _slot(self, Span key) noexcept nogil:
        """That of the key, or the empty one where it belongs: there always is one."""
        cdef Digest digest = digest_of(key, self._k0, self._k1)
        cdef Slot* slot = self._slots + digest.low % <uint64_t>self.slots
        cdef Slot* last = self._slots + self.slots - 1
        while slot.next_offset != 0 and (slot.low != digest.low or slot.high != digest.high):
            slot = self._slots if slot == last else slot + 1
        slot.low = digest.low
        slot.high = digest.high
        return slot

    def find(self, bytes key):
        cdef Span span
        span.at = <Bytes>PyBytes_AS_STRING(key)
        span.length = <int32_t>PyBytes_GET_SIZE(key)
        return self._slot(span).next_offset - 1

    def put_all(self, section, int64_t start, Py_ssize_t limit):
        cdef Cursor cursor = Cursor(section)
        cdef Slot* slot
        cdef int more
        cdef bint full = False
        cdef int64_t stopped = 0
        if limit >= self.slots:
            raise ValueError("a table must keep an empty slot")
        with nogil:
            while True:
                more = cursor.step()
                if more <= 0:
                    break
                if cursor.record.key.length < 0 or cursor.offset() < start:
                    continue
                if self.size >= limit:
                    full = True
                    stopped = cursor.offset()
                    break
                slot = self._slot(cursor.record.key)
                if slot.next_offset == 0:
                    self.size += 1
                slot.next_offset = cursor.offset() + 1
        if more < 0:
            raise malformed()
        return stopped if full else None


def retain(section, KeyTable table, int64_t latest, bint tombstones, Py_ssize_t reserve):
    cdef Cursor cursor = Cursor(section)
    cdef bytearray out = bytearray(reserve + cursor.view.len)
    cdef uint8_t* target = <uint8_t*>PyByteArray_AS_STRING(out) + reserve
    cdef Bytes begin
    cdef int64_t largest = -1
    cdef int32_t kept = 0
    cdef bint has_tombstone = False
    cdef int more
    with nogil:
        while True:
            begin = cursor.p
            more = cursor.step()
            if more <= 0:
                break
            if cursor.offset() <= latest:
                if cursor.record.key.length < 0 or cursor.offset() + 1 < table._slot(cursor.record.key).next_offset:
                    continue
                if cursor.record.value.length < 0 and not tombstones:
                    continue
            memcpy(target, begin, cursor.p - begin)
            target += cursor.p - begin
            kept += 1
            if cursor.timestamp() > largest:
                largest = cursor.timestamp()
            if cursor.record.value.length < 0:
                has_tombstone = True
    if more < 0:
        raise malformed()
    PyByteArray_Resize(out, target - <uint8_t*>PyByteArray_AS_STRING(out))
    return out, kept, largest, has_tombstone


cdef struct Moved:
    Bytes attributes
    int64_t delta
    Py_ssize_t rest  # bytes behind the timestamp's


cdef inline Moved moved(Bytes begin, Cursor cursor, uint64_t shift) noexcept nogil:
    """The record at `begin`, which the cursor has just read."""
    cdef Moved to
    cdef int32_t size
    to.attributes = read_varint(begin, cursor.p, &size)
    to.delta = <int64_t>(<uint64_t>cursor.record.timestamp_delta + shift)
    to.rest = cursor.p - behind_varlong(to.attributes + 1)
    return to


cdef Py_ssize_t moved_size(section, int64_t base_timestamp) except -1:
    """Of all records: memory is taken once they are known to be well-formed, and no more than they need."""
    cdef Cursor cursor = Cursor(section)
    cdef uint64_t shift = <uint64_t>cursor.base_timestamp - <uint64_t>base_timestamp
    cdef Bytes begin
    cdef Moved to
    cdef Py_ssize_t size, total = 0
    cdef int more
    with nogil:
        while True:
            begin = cursor.p
            more = cursor.step()
            if more <= 0:
                break
            to = moved(begin, cursor, shift)
            size = 1 + varlong_size(to.delta) + to.rest
            total += varlong_size(size) + size
    if more < 0:
        raise malformed()
    return total


def rebased(section, int64_t base_timestamp, Py_ssize_t reserve):
    cdef bytearray out = bytearray(reserve + moved_size(section, base_timestamp))
    cdef uint8_t* target = <uint8_t*>PyByteArray_AS_STRING(out) + reserve
    cdef Cursor cursor = Cursor(section)
    cdef uint64_t shift = <uint64_t>cursor.base_timestamp - <uint64_t>base_timestamp
    cdef Bytes begin
    cdef Moved to
    with nogil:
        while True:
            begin = cursor.p
            if cursor.step() <= 0:
                break
            to = moved(begin, cursor, shift)
            target = put_varlong(target, 1 + varlong_size(to.delta) + to.rest)
            target[0] = to.attributes[0]
            target = put_varlong(target + 1, to.delta)
            memcpy(target, cursor.p - to.rest, to.rest)
            target += to.rest
    return out


cdef inline Bytes behind_varlong(Bytes p) noexcept nogil:
    """`parse` has seen that it ends."""
    while p[0] >= 0x80:
        p += 1
    return p + 1
