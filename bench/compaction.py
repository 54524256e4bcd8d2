"""A compacted log is cleaned while another topic is written to: how fast, and what the writers notice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer

from bench.systems import PATIENCE, System
from bench.workloads import HANDED_OVER, QUEUE, RELIABLE, Sample, cost_of, percentile
from highwater.client import Admin, Client, ResourceType

VALUE_BYTES = 1_000
SURVIVORS = 10
"""One record in so many is the last of its key."""
SEGMENT_BYTES = 100 << 20
QUIET_SECONDS = 8.0
BACKOFF_MS = 100
"""How late a cleaner may notice that it is allowed to begin."""
CHECKPOINT = "cleaner-offset-checkpoint"
RATIO, NOT_YET, AT_ONCE = "min.cleanable.dirty.ratio", "1.0", "0.0"


def cleaned_beside_writers(system: System, size: int) -> Sequence[Sample]:
    """MB of log per second; and the 99th percentile of a write to another topic, as a multiple of its quiet one.

    The log is written while min.cleanable.dirty.ratio forbids to clean it; then that is changed, and all is dirty.
    """
    with Client(system.bootstrap) as client:
        Admin(client).alter_configs(ResourceType.BROKER, "", put={"log.cleaner.backoff.ms": str(BACKOFF_MS)})
    of_log = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), RATIO: NOT_YET}
    compacted = system.create_topic(1, of_log)
    other = system.create_topic(1)
    _fill(system, compacted, size)
    os.sync()  # what is written back meanwhile would not be quiet
    directory = system.log_dirs()[0] / f"{compacted}-0"
    closed = sorted(directory.glob("*.log"))[:-1]
    dirty, end = sum(path.stat().st_size for path in closed), int(max(directory.glob("*.log")).stem)

    begin = time.perf_counter()
    quiet = _late(system, other, lambda: time.perf_counter() - begin > QUIET_SECONDS)
    with Client(system.bootstrap) as client, cost_of(system) as cost:
        Admin(client).alter_configs(ResourceType.TOPIC, compacted, put={RATIO: AT_ONCE})
        disturbed = _late(system, other, lambda: _clean_end(system.log_dirs()[0], compacted) >= end)
    left = sum(path.stat().st_size for path in directory.glob("*.log"))
    if left > dirty * 2 / SURVIVORS:
        raise RuntimeError(f"{system.name}: {dirty} bytes were cleaned, and {left} are left")
    return [
        Sample(dirty / 1e6 / cost.seconds, cost.cpu / dirty * 1e9, cost.lag),
        Sample(disturbed * 1000, lag=cost.lag),
        Sample(disturbed / quiet, lag=cost.lag),
    ]


def _fill(system: System, topic: str, size: int) -> None:
    """Every key as often as every other, in turns."""
    producer = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 5, **RELIABLE, **QUEUE})
    records = size // VALUE_BYTES
    keys, value = records // SURVIVORS, b"x" * VALUE_BYTES
    for begin in range(0, records, HANDED_OVER):
        handful = [{"key": b"%012d" % (n % keys), "value": value} for n in range(begin, begin + HANDED_OVER)]
        while handful:
            taken = producer.produce_batch(topic, handful)
            del handful[:taken]
            if handful:
                producer.poll(0.01)
    if unsent := producer.flush(PATIENCE):
        raise RuntimeError(f"{system.name}: {unsent} of {records} records were not acknowledged")


def _late(system: System, topic: str, is_over: Callable[[], bool]) -> float:
    """The 99th percentile of the seconds from sending one record to its acknowledgement, one at a time."""
    producer = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 0, **RELIABLE})
    producer.list_topics(topic, timeout=30)
    taken: list[float] = []
    deadline = time.monotonic() + PATIENCE * 4
    while not is_over():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{system.name}: the log was not cleaned in time\n{system.words()}")
        for _ in range(50):
            begin = time.perf_counter()
            producer.produce(topic, b"x" * 100)
            producer.flush(30)
            taken.append(time.perf_counter() - begin)
    return percentile(taken, 0.99)


def _clean_end(log_dir: Path, topic: str) -> int:
    """Up to where the log is clean, as the cleaner notes it when it is done."""
    try:
        lines = (log_dir / CHECKPOINT).read_text().splitlines()[2:]
    except FileNotFoundError:
        return -1
    return next((int(line.split()[2]) for line in lines if line.split()[:2] == [topic, "0"]), -1)
