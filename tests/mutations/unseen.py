"""Lines of which some change can be seen by no test, each with the reason. A draw that lands there says so."""

from __future__ import annotations

from typing import NamedTuple

SRC = "src/highwater/"


class Unseen(NamedTuple):
    file: str
    line: str
    """As it stands in its file, stripped."""
    reason: str


UNSEEN = [
    Unseen(
        f"{SRC}replication/alter_partition.py",
        "partition_epoch: Epoch = -1",
        "an answer without one is below every partition epoch, whatever number says so",
    ),
    Unseen(
        f"{SRC}replication/conversation.py",
        "self._unnamed: bool = False",
        "it counts in a session alone, and the fetch that begins one sets it",
    ),
    Unseen(
        f"{SRC}replication/follower.py",
        "high_watermark: Offset = -1",
        "whatever is below zero says that nothing is committed",
    ),
    Unseen(
        f"{SRC}replication/follower.py",
        "log_start: Offset = -1",
        "whatever is below zero says that nothing is deleted",
    ),
    Unseen(
        f"{SRC}replication/follower_progress.py",
        "has_left: bool = False",
        "a follower that has not fetched may not join, whether it was in the ISR or not; and its first fetch sets it",
    ),
    Unseen(
        f"{SRC}replication/follower_progress.py",
        "if at is not None and (self.caught_up_at is None or at > self.caught_up_at):",
        "the same time is set again",
    ),
    Unseen(f"{SRC}replication/leader.py", "if broker_epoch < known:", "that they differ is known already"),
    Unseen(
        f"{SRC}replication/leader.py",
        "if lowest <= self.high_watermark or self.is_frozen or not self.enough_in_sync:",
        "it saves the look at the followers; what they leave is compared again",
    ),
    Unseen(f"{SRC}replication/leader.py", "if progress.end < lowest:", "the same offset is set again"),
    Unseen(
        f"{SRC}replication/leader.py",
        "if progress.end is not None and progress.end < lowest and self._is_joining(replica, now):",
        "the same offset is set again",
    ),
    Unseen(
        f"{SRC}replication/leader.py",
        "self._others = [each for each in self.followers.items() if each[0] not in counted]",
        "who is counted is not below the lowest: to look at it twice changes nothing",
    ),
    Unseen(f"{SRC}partition/fetch_session.py", "MOST_ENTRIES = 200_000", "it bounds memory: one more is as good"),
    Unseen(
        f"{SRC}partition/fetch_session.py",
        "self.is_watching: bool = False",
        "it is set when the entry is bound, before anybody asks",
    ),
    Unseen(
        f"{SRC}partition/fetch_session.py",
        "self.sent_high_watermark: Offset = -1",
        "whatever no log has says that nothing was sent",
    ),
    Unseen(
        f"{SRC}partition/fetch_session.py",
        "self.sent_log_start: Offset = -1",
        "whatever no log has says that nothing was sent",
    ),
    Unseen(
        f"{SRC}partition/fetcher.py",
        "followed.cut_failed()",
        "what is being cut is not fetched either: only a look at the machine shows the difference",
    ),
    Unseen(
        f"{SRC}partition/leader_ends.py",
        "version = connection.pick(ListOffsetsRequest.API_KEY, ListOffsetsRequest.VERSIONS) or 1",
        "whoever can be followed knows the request",
    ),
    Unseen(f"{SRC}partition/partition.py", "REMEMBERED = 8", "it bounds what is remembered: one more is as good"),
    Unseen(
        f"{SRC}partition/partition.py",
        "self.leader_high_watermark: Offset = -1",
        "whatever is below zero means that the leader sent none yet",
    ),
    Unseen(
        f"{SRC}partition/partition.py",
        "self.leader_high_watermark = -1",
        "whatever is below zero means that the leader sent none yet",
    ),
    Unseen(
        f"{SRC}quorum/core.py",
        "check_initial(self.role.role)",
        "it asserts what `_initial_role` makes sure of by itself",
    ),
    Unseen(
        f"{SRC}quorum/leader.py",
        "leader_end_at_fetch: Offset = -1",
        "whatever is below zero says that nothing was fetched yet",
    ),
    Unseen(f"{SRC}quorum/links.py", "self._sent = 0", "correlations must differ, from whatever number on"),
    Unseen(f"{SRC}quorum/leader.py", "OBSERVERS_MAX = 1000", "it bounds what is remembered: one more is as good"),
    Unseen(
        f"{SRC}quorum/leader.py",
        "self._local_end: Offset = -1",
        "it is set as soon as the leader is made",
    ),
    Unseen(
        f"{SRC}groups/tombstones.py",
        "looked += 1 + found[0]",
        "it bounds one turn of the loop: one less changes nothing that is decided",
    ),
    Unseen(
        f"{SRC}effects.py",
        "aging_ms: int = 2**63 - 1",
        "it is the end of time: no clock comes near it",
    ),
    Unseen(f"{SRC}groups/group.py", "self.is_assigned: bool = False", "it is set again before anybody asks"),
    Unseen(
        f"{SRC}groups/rebalance.py",
        "_SHORTEST_RETRY_MS: Final = 1_000",
        "it keeps a deadline from spinning: one more is as good",
    ),
    Unseen(
        f"{SRC}groups/tombstones.py",
        "_GROUP_KEY_BYTES: Final = 4",
        "it bounds a size from above: one more is as good",
    ),
    Unseen(
        f"{SRC}groups/deadlines.py",
        "self._heap.clear()",
        "what is in nobody's name is passed over when it comes to the top",
    ),
    Unseen(f"{SRC}groups/group.py", "self.was_joined = False", "it is set again before anybody asks"),
    Unseen(f"{SRC}groups/group.py", "self.delay_ms = 0", "it is set again before anybody asks"),
    Unseen(f"{SRC}groups/group.py", "self.delay_left_ms = 0", "it is set again before anybody asks"),
    Unseen(
        f"{SRC}groups/tombstones.py",
        "AT_ONCE: Final = 250",
        "it bounds one turn of the loop: one more changes nothing that is decided",
    ),
    Unseen(f"{SRC}groups/footprint.py", "_GROUP: Final = 1_000", "it estimates a size: one more is as good"),
    Unseen(f"{SRC}groups/footprint.py", "_PENDING: Final = 350", "it estimates a size: one more is as good"),
    Unseen(f"{SRC}groups/footprint.py", "_MEMBER: Final = 900", "it estimates a size: one more is as good"),
    Unseen(f"{SRC}groups/footprint.py", "_LEAST_MEMBER: Final = 4_096", "it estimates a size: one more is as good"),
    Unseen(
        f"{SRC}groups/footprint.py",
        "return _MEMBER + names + size_of(member.protocols) + len(member.assignment)",
        "it estimates a size: one more is as good",
    ),
    Unseen(
        f"{SRC}groups/footprint.py",
        "return _MEMBER + _MEMBER_ID + names + size_of(join.protocols)",
        "it estimates a size: one more is as good",
    ),
    Unseen(
        f"{SRC}groups/deadlines.py",
        "if len(self._heap) > 2 * len(self._due) + _STALE:",
        "it bounds memory: a little more is as good",
    ),
    Unseen(f"{SRC}groups/footprint.py", "_TOPIC: Final = 100", "it estimates a size: one more is as good"),
    Unseen(f"{SRC}groups/footprint.py", "_MEMBER_ID: Final = 37", "it estimates a size: one more is as good"),
    Unseen(f"{SRC}groups/offsets.py", "_OFFSET: Final = 300", "it estimates a size: one more is as good"),
    Unseen(f"{SRC}groups/offsets.py", "_LEAST: Final = 400", "it estimates a size: one more is as good"),
    Unseen(f"{SRC}groups/offsets.py", "self._order = 0", "only the order of the numbers counts"),
    Unseen(f"{SRC}groups/tombstones.py", "self._is_last = False", "it is set again before anybody asks"),
    Unseen(
        f"{SRC}controller/leaders.py",
        "MAX_ELECTIONS: Final = 200",
        "it bounds one turn of the loop: one more changes nothing that is decided",
    ),
    Unseen(
        f"{SRC}controller/partitions.py",
        "if asked.count < existing:",
        "that there are as many is refused already",
    ),
    Unseen(
        f"{SRC}controller/brokers.py",
        "return BrokerState.FENCED, False",
        "what others know is asked of a broker in a controlled shutdown alone",
    ),
    Unseen(
        f"{SRC}controller/brokers.py",
        "return BrokerState.UNFENCED, False",
        "what others know is asked of a broker in a controlled shutdown alone",
    ),
    Unseen(
        f"{SRC}coordinator/coordinator.py",
        "_HASHED_AT_ONCE = 256",
        "it says how much is hashed at a time, and nothing of the hash",
    ),
    Unseen(
        f"{SRC}coordinator/coordinator.py",
        "_POWERS = [pow(31, exponent, 1 << 32) for exponent in reversed(range(_HASHED_AT_ONCE))]",
        "what is more than 32 bits of a power is cut off later",
    ),
    Unseen(
        f"{SRC}coordinator/tenure.py",
        "if self.state is not TenureState.LOADING:",
        "whatever comes of it asks for the state again",
    ),
    Unseen(
        f"{SRC}coordinator/tenure.py",
        "if self.state is not TenureState.ACTIVE:",
        "whatever comes of it asks for the state again",
    ),
    Unseen(
        f"{SRC}coordinator/loading.py",
        "PIECE = 500",
        "it says how much the loop takes in at a time, and nothing of what is loaded",
    ),
    Unseen(
        f"{SRC}controller/configs.py",
        "validate_broker_configs(changed, per_broker=resource != CLUSTER_DEFAULT)",
        "no setting that is here is for single brokers alone",
    ),
    Unseen(
        f"{SRC}controller/deletion.py",
        "known = None if name is None else head.topics.by_name.get(name)",
        "there is no topic without a name: it is asked for the sake of the types",
    ),
    Unseen(
        f"{SRC}partition/fetch_session.py",
        "self.sent_log_start: Offset = -1",
        "no log begins below zero, so that whatever is below zero differs from every log start",
    ),
    Unseen(
        f"{SRC}log/compaction/cleaner.py",
        "PROCESS_ABOVE_BYTES = 4 << 20",
        "it decides where the work is done, and nothing of its result",
    ),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "if segment_end <= work.clean_end:",
        "nothing of a segment that ends there lies beyond",
    ),
    Unseen(
        f"{SRC}log/soundness.py",
        "previous = (segment.base_offset - 1, -1)",
        "an offset that lies before the segment is that of none of its batches",
    ),
    Unseen(
        f"{SRC}log/partition_metadata.py",
        'fields = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines() if line)',
        "a colon in a value is refused either way",
    ),
    Unseen(f"{SRC}log/durability.py", "self.cuts = 0", "only whether it has changed counts"),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "segment = Segment(self._disk, self._work.directory, base, 0)",
        "nobody asks how old it is: only its batches are read",
    ),
    Unseen(
        f"{SRC}log/compaction/swap.py",
        "await synced(world, [], directory)  # otherwise the next start may have to rename it again",
        "what a power cut takes back is done again by the next start",
    ),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "if len(self._buffer) >= _STEP_BYTES:",
        "it says how much is written at a time, and nothing of what is written",
    ),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "below = [shape for shape in self._work.segments if shape.base_offset < end]",
        "a segment behind the end is written as it was",
    ),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "takes, self._unpaid = self._unpaid / self._work.bytes_per_second, 0",
        "one byte more or less is as good",
    ),
    Unseen(
        f"{SRC}log/integrity.py",
        "self._crc = 0",
        "it is set before anybody asks",
    ),
    Unseen(
        f"{SRC}log/integrity.py",
        "self._expected = 0",
        "it is set before anybody asks",
    ),
    Unseen(
        f"{SRC}log/log.py",
        "behind = self.segment_of(self.durability.durable_end - 1)",
        "a segment that is durable is synced once more",
    ),
    Unseen(
        f"{SRC}log/peek.py",
        "offset = -1",
        "whatever is below zero says that no place was looked for",
    ),
    Unseen(
        f"{SRC}log/clean_stop.py",
        "AT_ONCE = 16",
        "it says how many logs are closed at a time",
    ),
    Unseen(
        f"{SRC}log/clean_stop.py",
        "PATIENCE_SECONDS = 5.0",
        "it bounds how long a stop is patient: one more is as good",
    ),
    Unseen(
        f"{SRC}log/store.py",
        "ABSENT_NAMED = 20",
        "it bounds the lines of a log",
    ),
    Unseen(
        f"{SRC}log/compaction/cleaner.py",
        'then = "it is tried again" if again else "it is not tried again before the next start"',
        "it is part of a log line",
    ),
    Unseen(
        f"{SRC}log/compaction/cleaner.py",
        'job = self._world.run(rewrite, work, done=done, step=step, where="thread" if short else "background")',
        "it decides where the work is done, and nothing of its result",
    ),
    Unseen(
        f"{SRC}log/compaction/cleaner.py",
        "aborted=log.aborted_transactions(0, end),",
        "no transaction ends at the first offset: a marker follows what it ends",
    ),
    Unseen(
        f"{SRC}log/compaction/interrupted.py",
        "if done:",
        "what a power cut brings back is removed again by the next start",
    ),
    Unseen(f"{SRC}log/compaction/rewrite.py", "SLOT_BYTES = 24", "it bounds memory: a little less is as good"),
    Unseen(f"{SRC}log/compaction/rewrite.py", "_STEP_BYTES = 1 << 20", "it says when a job may be paused"),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "slots = max(work.table_bytes // SLOT_BYTES, 2)",
        "it bounds memory from below: one more is as good",
    ),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "self._limit = max(min(int(slots * work.load_factor), slots - 1), 1)",
        "it says how many keys a pass takes, of which the next one takes the rest",
    ),
    Unseen(f"{SRC}log/epoch_cache.py", "UNDEFINED = (-1, -1)", "whatever is below zero says that nothing is known"),
    Unseen(f"{SRC}log/loader.py", "reported = batch.position", "it says when progress is reported"),
    Unseen(
        f"{SRC}log/loader.py",
        "if epoch > self.epochs.latest:",
        "an epoch that is known to begin later begins here either way, by the batch or by all of them",
    ),
    Unseen(
        f"{SRC}log/loader.py",
        "for batch in _batches(segment, start, segment.base_offset, check=False):",
        "they are known to be whole: only the time that it takes is another",
    ),
    Unseen(
        f"{SRC}log/durability.py",
        "self._again = False",
        "a sync that finds nothing to do does nothing",
    ),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "end = max(end, batch.header.next_offset)",
        "the offset of a full table lies behind all that was put into it, and so does the end of the segment",
    ),
    Unseen(
        f"{SRC}log/compaction/rewrite.py",
        "if self._unpaid < self._piece:",
        "the pieces that are paid for are smaller, and the rate is the same",
    ),
    Unseen(
        f"{SRC}log/compaction/interrupted.py",
        "for batch in scan(file, 0, base, check=False):",
        "what was synced before it got its name has the checksums that it had",
    ),
    Unseen(
        f"{SRC}log/loader.py",
        "for batch in scan(segment.file, first.position, 0, check=False):",
        "checksums have been looked at, or need not be: only the time that it takes is another",
    ),
    Unseen(
        f"{SRC}log/lookup.py",
        "begin = max(segment.time_index.floor(timestamp, blocking), start)",
        "a search that begins further back finds the same",
    ),
    Unseen(f"{SRC}log/lookup.py", "_BATCHES_PER_STEP = 100", "it says when a job may be paused"),
    Unseen(f"{SRC}log/soundness.py", "SAMPLES = 64", "one sample more or less is as good"),
    Unseen(
        f"{SRC}log/loader.py",
        "if batch.position - reported >= _STEP_BYTES:",
        "it says when progress is reported",
    ),
    Unseen(
        f"{SRC}log/producer_snapshot.py",
        'data = bytearray(_HEAD.pack(VERSION, 0, len(entries)) + b"".join(entries))',
        "the checksum takes the place of whatever stands there",
    ),
    Unseen(
        f"{SRC}log/scan.py",
        "if within + size > len(chunk):",
        "a piece that ends with a whole batch is read again for nothing, and found the same",
    ),
    Unseen(
        f"{SRC}log/scan.py",
        "memoryview(file.read(position, max(size, min(CHUNK, end - position)))),",
        "it says how much is read at a time, and nothing of what is found",
    ),
    Unseen(f"{SRC}log/scan.py", "CHUNK = 1 << 20", "it says how much is read at a time, and nothing of what is found"),
    Unseen(
        f"{SRC}log/segment.py",
        "if within + _HEAD.size > len(chunk):",
        "a piece that ends with a whole head is read again for nothing, and found the same",
    ),
    Unseen(
        f"{SRC}log/store.py",
        "scans = not self.found.clean and size > PROCESS_ABOVE_BYTES",
        "it decides where the work is done, and nothing of its result",
    ),
    Unseen(
        f"{SRC}log/store.py",
        "self._outdated -= outdated",
        "without it checkpoints are written once more, and say the same",
    ),
]


def why_unseen(file: str, line: str) -> str | None:
    return next((each.reason for each in UNSEEN if (each.file, each.line) == (file, line)), None)
