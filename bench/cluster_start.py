"""How long a cluster takes from its constructor to the first line of a test, and to its end."""

from __future__ import annotations

import argparse
import statistics
import time

from highwater import Cluster


def measure(brokers: int, processes: bool) -> tuple[float, float]:
    """Seconds to open and to close."""
    begun = time.perf_counter()
    with Cluster(brokers=brokers, processes=processes):
        ready = time.perf_counter()
    return ready - begun, time.perf_counter() - ready


def cluster_starts(runs: int, brokers: int = 3, processes: bool = False) -> list[tuple[float, float]]:
    """After one that pays for the imports, as the first test of a session does."""
    measure(brokers, processes)
    return [measure(brokers, processes) for _ in range(runs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--processes", action="store_true")
    arguments = parser.parse_args()
    taken = [measure(arguments.brokers, arguments.processes) for _ in range(arguments.runs)]
    kind = "processes" if arguments.processes else "threads"
    for name, seconds in zip(("ready", "closed"), zip(*taken, strict=True), strict=True):
        print(
            f"{arguments.brokers} brokers as {kind}, {name}: median {statistics.median(seconds):.3f} s, "
            f"first {seconds[0]:.3f} s, worst {max(seconds):.3f} s of {len(seconds)}"
        )


if __name__ == "__main__":
    main()
