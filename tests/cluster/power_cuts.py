"""The power of a whole cluster is cut again and again while it is written to, and each time it starts by itself.

`unshare --mount --propagation private .venv/bin/python -m tests.cluster.power_cuts FOLDER 100` does it by hand.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

from highwater.client import Admin, Client, NewTopic
from tests.apache import free_ports
from tests.cluster.feed import Writers, verdict_on
from tests.cluster.power import CANNOT_MOUNT, CannotMount, Machine, powered
from tests.cluster.stage import wait_for_moment

NODES = 3
TOPIC = "kept"
PARTITIONS = 3
PRODUCERS = 2
SYNCED = "log.flush.interval.messages=1"
SETTINGS = {"min.insync.replicas": "2", "segment.ms": "300"}
"""Segments roll all the time: a new file's name must be kept, too, and what a producer has in flight lies in several of
them, so that only its snapshots distinguish a batch that is repeated after a cut from a new one."""
EARLY = 4
"""After one cut of so many comes another one, while the cluster starts."""


class Cuts:
    def __init__(self, machine: Machine, cuts: int, seed: int) -> None:
        self._machine = machine
        self._cuts = cuts
        self._draw = random.Random(seed)
        self._port = free_ports(NODES)[0]
        self.bootstrap = ",".join(f"127.0.0.1:{self._port + node}" for node in range(NODES))
        self.seconds: list[float] = []
        self._topics = {TOPIC}
        self._writers = Writers(PRODUCERS, self.bootstrap, TOPIC, PARTITIONS)

    def run(self) -> None:
        self._start()
        with Client(self.bootstrap) as client:
            Admin(client).create_topics([NewTopic(TOPIC, PARTITIONS, NODES, configs=SETTINGS)])
        with self._writers:
            for number in range(1, self._cuts + 1):
                self._cut(number)
        verdict = verdict_on(self.bootstrap, TOPIC, PARTITIONS, self._writers.feeds)
        sent = sum(len(feed.sends) for feed in self._writers.feeds)
        with Client(self.bootstrap) as client:
            gone = sorted(self._topics - set(Admin(client).list_topics()))
        slowest = max(self.seconds, default=0.0)
        print(f"{self._cuts} cuts, ready after at most {slowest:.1f} s; {verdict.acked} acknowledged of {sent}")
        print(f"{self._writers.replaced} producers gave up and were replaced; {json.dumps(verdict.counts)}")
        assert verdict.ok, verdict.counts
        assert not self._writers.replaced, [feed.errors[:3] for feed in self._writers.feeds]
        assert not gone, f"topics whose creation was acknowledged: {gone}"

    def _start(self) -> None:
        up = self._machine.up("--brokers", str(NODES), "--port", str(self._port), "--set", SYNCED)
        self.seconds.append(self._machine.wait_until_ready(up))

    def _cut(self, number: int) -> None:
        """In the middle of writing, right after a topic was made."""
        wait_for_moment(time.monotonic() + self._draw.uniform(0, 1.5))
        name = f"made-before-{number}"
        with Client(self.bootstrap) as client:
            Admin(client).create_topics([NewTopic(name, 1, NODES)])
        self._topics.add(name)
        self._machine.cut_power()
        self._machine.reboot()
        if number % EARLY == 2:
            self._machine.up("--brokers", str(NODES), "--port", str(self._port), "--set", SYNCED)
            wait_for_moment(time.monotonic() + self._draw.uniform(0, 3))
            self._machine.cut_power()
            self._machine.reboot()
        began = time.monotonic()
        self._start()
        self._writers.await_acks(began)
        print(f"cut {number}: ready after {self.seconds[-1]:.1f} s, {self._writers.acked} acknowledged", flush=True)


def main(folder: Path, cuts: int) -> int:
    seed = int(os.environ.get("HIGHWATER_SEED", random.SystemRandom().randrange(1_000_000)))
    print(f"seed {seed}", flush=True)
    try:
        with powered(folder, NODES) as machine:
            Cuts(machine, cuts, seed).run()
    except CannotMount as reason:
        print(reason)
        return CANNOT_MOUNT
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
