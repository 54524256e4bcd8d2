"""The parameters of a simulated world: ranges of durations, sizes and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

Range = tuple[float, float]

LINK_DELAY: Range = (0.00005, 0.001)
FLUSH_ROUND: Range = (0.0002, 0.004)
JOB_STEP: Range = (0.00005, 0.002)
SLICE: Range = (0.0031, 0.005)
"""Longer than what one request takes of a node's loop at a time: what is done by turns gives way."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """Seconds, bytes and probabilities; a seed draws from them, a test narrows them."""

    link_delay: Range = LINK_DELAY
    """One way, per segment."""
    window: int = 64 * 1024
    """Bytes of one stream that the two kernels hold for it; more stays in the sender's own buffer."""
    tiny_segments: float = 0.15
    """How often a segment is cut down to a few bytes."""
    connect_timeout: float = 10.0
    retransmit_timeout: float = 900.0
    """How long sent bytes may go unacknowledged before the sender's kernel gives the connection up."""
    flush_round: Range = FLUSH_ROUND
    job_step: Range = JOB_STEP
    slow_code: float = 0.0
    """How often code has taken a `slice` when it looks at the clock. Else it takes no time at all."""
    slice: Range = SLICE
    cold_read: float = 0.25
    """How often a cached read of bytes not written lately would block."""
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
