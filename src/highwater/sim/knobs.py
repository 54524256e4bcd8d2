"""The parameters of a simulated world: ranges of durations, sizes and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

Range = tuple[float, float]

LINK_DELAY: Range = (0.00005, 0.001)
FLUSH_ROUND: Range = (0.0002, 0.004)
JOB_STEP: Range = (0.00005, 0.002)
SLICE: Range = (0.0031, 0.005)
"""Longer than one request holds a node's loop at a time: longer work is done in turns."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """Seconds, bytes and probabilities. A seed draws from these ranges, and a test narrows them."""

    link_delay: Range = LINK_DELAY
    """One way, per segment."""
    window: int = 64 * 1024
    """The bytes of one stream that the two kernels hold. More bytes stay in the sender's own buffer."""
    tiny_segments: float = 0.15
    """The probability that a segment has only a few bytes."""
    connect_timeout: float = 10.0
    retransmit_timeout: float = 900.0
    """The sender's kernel gives up the connection if sent bytes are not acknowledged within this time."""
    flush_round: Range = FLUSH_ROUND
    job_step: Range = JOB_STEP
    slow_code: float = 0.0
    """The probability that code has taken a `slice` of time when it reads the clock. Otherwise it takes no time."""
    slice: Range = SLICE
    cold_read: float = 0.25
    """The probability that a cached read would block, for bytes that were not written lately."""
    warm_tail: int = 64 * 1024
    """Bytes at the end of a file that count as written lately."""
    sync_keeps_entry: bool = False
    """ext4 makes a new file's name durable with the file's own sync. POSIX promises it for `sync_dir` alone."""

    @classmethod
    def swarm(cls, random: Random) -> Knobs:
        """A different world for each seed: slow or fast links, small windows, cold caches, slow disks."""
        link, disk, job = (10 ** random.uniform(-1, 1.5) for _ in range(3))
        return cls(
            link_delay=_scaled(LINK_DELAY, link),
            window=2 ** random.randint(8, 18),
            tiny_segments=random.choice((0.0, 0.15, 0.5)),
            flush_round=_scaled(FLUSH_ROUND, disk),
            job_step=_scaled(JOB_STEP, job),
            cold_read=random.choice((0.0, 0.25, 0.9)),
            warm_tail=random.choice((0, 4096, 64 * 1024)),
        )


def _scaled(range_: Range, factor: float) -> Range:
    return range_[0] * factor, range_[1] * factor
