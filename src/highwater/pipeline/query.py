"""One Spark query of a pipeline: its session, its code on the executors, and what it reports while it runs."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from highwater.model import TopicPartition
from highwater.pipeline.checkpoint import Checkpoint, Landed
from highwater.pipeline.definition import Definition, Transform
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.maintenance import Maintenance
from highwater.pipeline.offsets import Positions, is_initial
from highwater.pipeline.resuming import check_stateless, landing_id, passing_over, resumption
from highwater.pipeline.shipping import CODE, code_archive, make_importable, module_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEFAULT_MASTER = "local[*]"
LOOK_SECONDS = 1
USUAL: Mapping[str, str] = {}

_log = logging.getLogger(__name__)

_LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Quicker than Spark's usual one. It looks, and then renames, so it is safe only under `sole_driver`."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one finished micro-batch did."""

    batch_id: int
    records: int
    """Read, by offsets: gaps of compaction count as well."""
    rows: int
    """Landed in the table or written to the topic: dead letters are none, nor what a transform left out."""
    seconds: float
    lag: int
    """Offsets that were there and not yet read."""
    query_id: str
    files: int = 0
    size: int = 0
    """Bytes of the files that were landed."""
    bad: int = 0
    """Records that did not fit the schema; counted in direct mode alone."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def session(definition: Definition, master: str | None = None) -> SparkSession:
    """Starts a JVM. Executors elsewhere get our code and the user's; those on this machine's driver have it. A session
    that is there, in a notebook for example, is taken as it is: its settings are its owner's."""
    from pyspark.sql import SparkSession

    make_importable(definition)
    chosen = master or definition.master or DEFAULT_MASTER
    if (present := SparkSession.getActiveSession()) is not None:
        asked = dict(definition.conf) | ({"spark.master": chosen} if master or definition.master else {})
        if ignored := [name for name, value in asked.items() if present.conf.get(name, None) != value]:
            _log.warning("a Spark session is there and is taken as it is, so without %s", ", ".join(ignored))
        return present
    # Without it executors run whatever python3 they find, and all that is ever said is that a worker timed out.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {
        "spark.app.name": f"highwater-{definition.name}",
        "spark.master": chosen,
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
    }
    if "://" not in definition.checkpoint:
        conf["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_CHECKPOINTS
    if chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if not chosen.startswith("local") or chosen.startswith("local-cluster"):
        conf["spark.archives"] = f"{code_archive(definition)}#{CODE}"
        conf["spark.executorEnv.PYTHONPATH"] = CODE
    builder = SparkSession.builder
    for name, value in (conf | dict(definition.conf)).items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("WARN")
    return started


def transform_of(definition: Definition) -> Transform | None:
    """The function that a definition names. Raises ValueError where it is not there."""
    named = definition.transform
    if named is None or callable(named):
        return named
    where, _, function = named.rpartition(":")
    if where.endswith(".py"):
        path = definition.file(where)
        if not path.is_file():
            raise ValueError(f"transform: there is no file {path}")
        # By the name under which executors find it too.
        where = module_name(path)
    make_importable(definition)
    try:
        module = importlib.import_module(where)
    except ImportError as error:
        raise ValueError(f"transform: {where} cannot be imported: {error}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise ValueError(f"transform: {where} has no function {function}")
    return found  # type: ignore[no-any-return]


@contextmanager
def sole_driver(definition: Definition, lock: int | None = None) -> Iterator[None]:
    """For as long as a query of the pipeline may run. Raises InUse where another driver works on its checkpoint. `lock`
    is the descriptor that this process was given by the one that started it."""
    checkpoint = Checkpoint.at(definition.checkpoint)
    if checkpoint is None:
        yield
        return
    # The definition may have been edited since: then the descriptor is the lock of another checkpoint.
    with nullcontext() if lock is not None and checkpoint.is_held_by(lock) else checkpoint.locked():
        for file in checkpoint.mend():
            _log.warning("%s was half-written at a power cut, and is removed: Spark does not need it", file)
        yield


def start(
    spark: SparkSession, definition: Definition, transform: Transform | None, formats: Mapping[str, str] = USUAL
) -> StreamingQuery:
    """`formats` has the names under which others than the usual source and table are registered."""
    resumed = resumption(definition)
    reader = spark.readStream.format(formats.get("highwater", "highwater"))
    frame: DataFrame = reader.options(**definition.source, **resumed, **passing_over(definition)).load()
    if transform is not None:
        frame = transform(frame)
    if resumed:
        check_stateless(frame)
    sink = dict(definition.sink)
    if definition.sink_format == "highwater-table":
        sink["landingId"] = landing_id(definition)
    writer = frame.writeStream.format(formats.get(definition.sink_format, definition.sink_format)).options(**sink)
    writer = writer.option("checkpointLocation", definition.checkpoint).queryName(definition.name)
    seconds = definition.trigger_seconds
    if seconds is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds")
    return writer.start()


def follow(
    query: StreamingQuery, definition: Definition, stopping: Callable[[], bool], idle: Callable[[], None] = lambda: None
) -> Iterator[Report]:
    """Reports of finished batches until the query ends, or `stopping` says so. Raises what made the query fail. `idle`
    is called when Spark has looked, and there was nothing new."""
    seen = -1
    looked_at = ""
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(LOOK_SECONDS))
        for progress in query.recentProgress:
            fields = json.loads(progress.json)
            if fields["batchId"] > seen and fields["sources"] and _has_run(fields):
                seen = fields["batchId"]
                yield report(fields, _landed(definition, fields))
            elif not _has_run(fields) and fields["timestamp"] > looked_at:
                looked_at = fields["timestamp"]
                idle()
        if stopping() and not ended:
            query.stop()


@contextmanager
def maintained(definition: Definition) -> Iterator[Callable[[], None]]:
    """Gives what is to be called after each batch, for the upkeep of the table, if there is any."""
    if definition.upkeep is None:
        yield lambda: None
        return
    maintenance = Maintenance(Landing.from_options(definition.sink).table, definition.upkeep)
    try:
        yield maintenance.after_batch
    finally:
        maintenance.close()


def _has_run(progress: dict[str, Any]) -> bool:
    """Whether the progress is about a batch. Spark also reports that there is nothing to read, with the number of the
    next batch."""
    return "addBatch" in progress["durationMs"]


def _landed(definition: Definition, progress: dict[str, Any]) -> Landed | None:
    """None if it is unknown, for example for a table whose checkpoint is elsewhere."""
    if definition.sink_format != "highwater-table":
        return Landed(int(progress["numInputRows"]))
    checkpoint = Checkpoint.at(definition.checkpoint)
    return None if checkpoint is None else checkpoint.landed(progress["batchId"])


def report(progress: dict[str, Any], landed: Landed | None = None) -> Report:
    """From Spark's progress of a batch. If what has landed is not known, the records are counted instead."""
    source = progress["sources"][0]
    start, end, latest = (_positions(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
    records = sum(_count(at, position.offset, start, end) for at, position in end.at.items()) if start.at else 0
    lag = sum(max(0, position.offset - _offset(end, at)) for at, position in latest.at.items())
    known = Landed(records) if landed is None else landed
    return Report(
        batch_id=progress["batchId"],
        records=records,
        rows=known.rows,
        seconds=progress.get("durationMs", {}).get("triggerExecution", 0) / 1000,
        lag=lag,
        query_id=str(progress["id"]),
        files=known.files,
        size=known.size,
        bad=known.bad,
    )


def _count(at: TopicPartition, end: int, start: Positions, ends: Positions) -> int:
    """How many offsets of a partition a batch took. A topic that was made anew is read from its beginning."""
    was, now = start.topic_id(at.topic), ends.topic_id(at.topic)
    if was and now and was != now:
        return end
    # A log that was cut back ends before the place that was read before.
    return max(0, end - start.at[at].offset) if at in start.at else 0


def _offset(positions: Positions, at: TopicPartition) -> int:
    return positions.at[at].offset if at in positions.at else 0


def _positions(stored: Any) -> Positions:
    return Positions({}, {}) if not stored or is_initial(stored) else Positions.from_json(stored)
