"""The rows of the table: which workloads run, at which scale, and what their figures mean.

The same rows serve any number of nodes: topics are made with as many replicas as there are nodes, at most three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bench import clusters, compaction, workloads
from bench.pipelined import pipelined
from bench.systems import System
from bench.workloads import Sample

Better = Literal["more", "less"]
Run = Callable[[], Sequence[Sample]]

READINGS = 8
"""In each round. One takes a second at most and is bound by the client: by itself it is mostly noise."""


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    better: Better
    goal: float | None = None
    """What our figure is to be, as a multiple of Apache Kafka's."""
    per: str = ""
    """What its CPU seconds are counted per."""
    bound: float | None = None
    """What our figure is to be by itself, whatever Apache Kafka's is."""


@dataclass(frozen=True)
class Workload:
    """Each run on a system gives one sample for each of its rows."""

    name: str
    rows: Sequence[Row]
    on: Callable[[System], AbstractContextManager[Run]]
    """Makes a system ready for it, for as many runs as are wanted."""
    turns: int = 1
    """Runs in each round, on both systems by turns."""
    fresh: bool = False
    """Begins on a cluster that was started for it alone, and leaves nothing of use behind."""


START = Row("start to ready", "s", "less", 0.1)
IDLE_MEMORY = Row("memory, idle", "MB", "less", 1 / 7)
WORKED_MEMORY = Row("memory, after all rows", "MB", "less")
CLUSTER_START = Row("Cluster(brokers=3) ready, in one process", "s", "less", bound=0.5)
PARTITIONS = 1_000
COMPACTED_BYTES = 2_000_000_000


def workload_table(quick: bool, nodes: int) -> list[Workload]:
    """`quick` is for a look while working: fewer shapes, and a quarter of the records."""
    shapes = [(size, partitions) for size in (100, 1_000, 10_000) for partitions in (1, 3, 12)]
    if quick:
        shapes = [(100, 1), (100, 3), (100, 12), (1_000, 3), (10_000, 3)]
    scale = 0.25 if quick else 1.0
    goal = 2.0 if nodes > 1 else 1.0
    return [
        *(
            workload
            for size, partitions in shapes
            for workload in (_produce(size, partitions, scale, goal), _consume(size, partitions, scale))
        ),
        Workload(
            "sync",
            [
                Row("synchronous produce, median", "ms", "less", 0.5, "M req"),
                Row("synchronous produce, 99th percentile", "ms", "less", 0.5, "M req"),
            ],
            _simply(partial(_on_topic, workloads.synchronous, int(4_000 * scale))),
        ),
        Workload(
            "single",
            [Row("single-record requests, pipelined", "req/s", "more", 10.0 if nodes > 1 else None, "M req")],
            _simply(partial(_single, int(60_000 * scale))),
        ),
        Workload(
            "end-to-end",
            [
                Row("end to end at 5 000 rec/s, median", "ms", "less", None, "M rec"),
                Row("end to end at 5 000 rec/s, 99th percentile", "ms", "less", None, "M rec"),
            ],
            _simply(partial(_on_topic, workloads.end_to_end, int(40_000 * scale))),
        ),
        *(_of_clusters() if nodes > 1 else [_compaction(int(COMPACTED_BYTES * scale))]),
    ]


def _compaction(size: int) -> Workload:
    late = "99th percentile of a write while another log is compacted"
    return Workload(
        "compaction",
        [
            Row(f"compaction of {size / 1e9:.2g} GB", "MB/s", "more", 1.0, "GB"),
            Row(late, "ms", "less"),
            Row("the same, by what it is else", "times", "less", bound=2.0),
        ],
        _simply(partial(compaction.cleaned_beside_writers, size=size)),
        fresh=True,
    )


def _of_clusters() -> list[Workload]:
    many = f"{PARTITIONS} partitions"
    return [
        Workload(
            "partitions",
            [
                Row(f"{many} created", "s", "less", 1 / 5, "topic", bound=3.0),
                Row(f"{many}, idle", "cores", "less", bound=0.1),
                Row(f"{many}, memory", "MB", "less", 1 / 5),
                Row(f"{many}, leaders of a killed broker moved", "s", "less", bound=2.0),
            ],
            _simply(partial(clusters.many_partitions, partitions=PARTITIONS)),
            fresh=True,
        ),
        _fail_over("failover", "a leader to next write", of_controller=False),
        _fail_over("failover-2", "leader and controller", of_controller=True),
    ]


def _fail_over(name: str, killed: str, of_controller: bool) -> Workload:
    row = Row(f"fail-over: kill of {killed}", "s", "less", 1 / 20, bound=1.5)
    return Workload(name, [row], _simply(partial(clusters.fail_over, of_controller=of_controller)), fresh=True)


def _records(size: int, scale: float) -> int:
    return int(min(1_600_000, 600_000_000 // size) * scale)


def _shape(size: int, partitions: int) -> str:
    bytes_text = f"{size} B" if size < 1_000 else f"{size // 1_000} KB"
    return f"{bytes_text}, {partitions} partition{'s' if partitions > 1 else ''}"


def _unit(size: int) -> tuple[str, float]:
    """And how much of it a record per second is."""
    return ("rec/s", 1.0) if size < 1_000 else ("MB/s", size / 1e6)


def _produce(size: int, partitions: int, scale: float, goal: float) -> Workload:
    records, (unit, per_unit) = _records(size, scale), _unit(size)

    def run(system: System) -> Sequence[Sample]:
        topic = system.create_topic(partitions)
        sample = workloads.produce(system, topic, records, size)
        system.delete_topic(topic)
        return [sample._replace(value=sample.value * per_unit)]

    row = Row(f"produce {_shape(size, partitions)}", unit, "more", goal, "GB")
    return Workload(f"produce-{size}x{partitions}", [row], _simply(run))


def _consume(size: int, partitions: int, scale: float) -> Workload:
    """One topic, again and again."""
    records, (unit, per_unit) = _records(size, scale), _unit(size)

    @contextmanager
    def on(system: System) -> Iterator[Run]:
        topic = system.create_topic(partitions)
        workloads.produce(system, topic, records, size)

        def run() -> Sequence[Sample]:
            sample = workloads.consume(system, topic, partitions, records, size)
            return [sample._replace(value=sample.value * per_unit)]

        yield run
        system.delete_topic(topic)

    row = Row(f"consume {_shape(size, partitions)}", unit, "more", 1.0, "GB")
    return Workload(f"consume-{size}x{partitions}", [row], on, turns=READINGS)


def _simply(run: Callable[[System], Sequence[Sample]]) -> Callable[[System], AbstractContextManager[Run]]:
    """Of a workload that makes itself what it needs."""
    return lambda system: nullcontext(partial(run, system))


def _on_topic(measure: Callable[[System, str, int], Sequence[Sample]], count: int, system: System) -> Sequence[Sample]:
    topic = system.create_topic(1)
    samples = measure(system, topic, count)
    system.delete_topic(topic)
    return samples


def _single(count: int, system: System) -> Sequence[Sample]:
    """Kafka takes one request of a connection at a time, with a wait for the followers in each: a tenth will do."""
    requests = count if system.name == "Highwater" or system.nodes == 1 else count // 10
    return _on_topic(lambda *given: [pipelined(*given)], requests, system)
