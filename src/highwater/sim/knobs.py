"""What a simulated world is tuned by: ranges of duration, sizes and probabilities."""

from __future__ import annotations

from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Knobs:
    """Seconds, bytes and probabilities; a seed draws from them, a test narrows them."""

    link_delay: Range = (0.00005, 0.001)
    """One way, per segment."""
    window: int = 64 * 1024
    """Bytes of one stream that the two kernels hold for it; more stays in the sender's own buffer."""
    tiny_segments: float = 0.15
    """How often a segment is cut down to a few bytes."""
    connect_timeout: float = 10.0
    retransmit_timeout: float = 900.0
    """How long sent bytes may go unacknowledged before the sender's kernel gives the connection up."""
    flush_round: Range = (0.0002, 0.004)
    job_step: Range = (0.00005, 0.002)
    cold_read: float = 0.25
    """How often a cached read of bytes not written lately would block."""
    warm_tail: int = 64 * 1024
    """Bytes at the end of a file that count as written lately."""
    sync_keeps_entry: bool = False
    """ext4 makes a new file's name durable with the file's own sync. POSIX promises it for `sync_dir` alone."""
