"""The `highwater` command with nodes that are measured from within: loop lag, profiles, what held the loop up.

The nodes' own code runs unchanged; only a timer is added. Where the gauges go is told by HIGHWATER_BENCH_GAUGES.
"""

from __future__ import annotations

import cProfile
import os
import sys
import threading
import time
import traceback
from pathlib import Path

from gauge import Gauge

import highwater.cli.node
from highwater.cli import main
from highwater.node import Node

INTERVAL = 0.01
STALL = 0.01
"""A loop silent for longer is asked what it is doing, where HIGHWATER_BENCH_STALLS is set."""


class MeasuredNode(Node):
    async def start(self) -> None:
        home = Path(os.environ["HIGHWATER_BENCH_GAUGES"])
        self._gauge = Gauge(home / f"node-{self.config.node_id}.gauge")
        self._profile_file = home / f"node-{self.config.node_id}.pstats"
        self._profile: cProfile.Profile | None = None
        self._due = self.world.clock.monotonic()
        self._cpu = 0.0
        self._sample()
        if "HIGHWATER_BENCH_STALLS" in os.environ:
            watching = (home / f"node-{self.config.node_id}.stalls", threading.get_ident())
            threading.Thread(target=self._note_stalls, args=watching, daemon=True).start()
        await super().start()

    def _sample(self) -> None:
        clock, gauge = self.world.clock, self._gauge
        now = clock.monotonic()
        gauge.note(now - self._due)
        if gauge.profile_wanted and self._profile is None:
            self._profile = cProfile.Profile(time.thread_time)  # not the time that others took
            self._profile.enable()
        elif self._profile is not None and not gauge.profile_wanted:
            self._profile.disable()
            self._profile.dump_stats(self._profile_file)
            self._profile = None
            gauge.profile_dumped = True
        self._due = clock.monotonic() + INTERVAL
        self._cpu = time.thread_time()
        clock.call_later(INTERVAL, self._sample)

    def _note_stalls(self, to: Path, loop_thread: int) -> None:
        """What a late loop is at, once per stall. Little time on the processor: it waited for the disk, or its turn."""
        processor = time.pthread_getcpuclockid(loop_thread)
        noted = 0.0
        with to.open("a", buffering=1) as out:
            while True:
                time.sleep(STALL / 4)
                due = self._due
                late = time.monotonic() - due
                if late > STALL and due != noted:
                    noted = due
                    worked = time.clock_gettime(processor) - self._cpu
                    stack = traceback.format_stack(sys._current_frames()[loop_thread], limit=8)
                    print(f"{late * 1000:.0f} ms late, {worked * 1000:.0f} at work\n{''.join(stack)}", file=out)


if __name__ == "__main__":
    highwater.cli.node.Node = MeasuredNode  # type: ignore[misc]
    main()
