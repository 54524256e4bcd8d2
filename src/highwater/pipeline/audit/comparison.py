"""The Spark job of an audit: every record of the topic against every row of the table, joined by offset."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from highwater.client.admin import Admin, ResourceType
from highwater.client.client import Client
from highwater.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, FoundOffset, list_offsets
from highwater.model import ZERO_UUID, TopicPartition, uuid_text
from highwater.pipeline.audit.scope import Present, Scope, Segment, scope
from highwater.pipeline.audit.verdict import DOUBLED, FOREIGN, KINDS, MISSING, Finding, Verdict, by_counts
from highwater.pipeline.dead_letters import PREFIX
from highwater.pipeline.landing.rule import LandingError
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.positioning import table_of
from highwater.pipeline.resuming import SKIPPED, landing_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from highwater.pipeline.definition import Definition
    from highwater.pipeline.landing.table import Contents

MOST_FINDINGS = 1000
PLACE = ("topic", "partition", "offset")
_TYPES = "topic STRING, partition INT, offset BIGINT"


def audit(spark: SparkSession, definition: Definition) -> Verdict:
    """Compares the topics with the table as of now. Raises LandingError for a table that cannot be audited."""
    table = table_of(definition)
    if not table.exists():
        raise LandingError("there is no table yet: there is nothing to audit")
    contents = table.contents()
    landing = landing_id(definition)
    position = contents.positions.get(landing)
    if position is None:
        raise LandingError(f"the table has no position of {landing}: it is unknown which offsets it should have")
    if table.known(landing).was_restored:
        raise LandingError(
            "the table was put back to an earlier version, and its position is that of the later one: set it with "
            "`highwater pipeline position --set` first"
        )
    wanted = sorted({TopicPartition(log.topic, log.partition) for log in position.at})
    found = scope(position, list(contents.positions.values()), _present(definition, wanted))
    comparison = _Comparison(spark, definition, contents, found)
    names = _place_columns(definition, contents.columns)
    return comparison.by_counts() if names is None else comparison.by_offset(names)


def _place_columns(definition: Definition, columns: tuple[str, ...]) -> tuple[str, ...] | None:
    kept = tuple(f"_{name}" for name in PLACE)
    if set(kept) <= set(columns):
        return kept
    is_raw = (definition.sink.get("decode") or definition.source.get("decode") or "raw") == "raw"
    return PLACE if is_raw and definition.transform is None and set(PLACE) <= set(columns) else None


def _present(definition: Definition, wanted: list[TopicPartition]) -> dict[TopicPartition, Present]:
    reading = SourceOptions.parse(definition.source, streaming=True).reading
    with reading.client() as client:
        client.refresh(sorted({partition.topic for partition in wanted}))
        topics = {name: topic for name, topic in client.view.topics.items() if topic.partitions}
        here = [each for each in wanted if each.topic in topics and each.partition in topics[each.topic].partitions]
        isolation = READ_COMMITTED if reading.read_committed else READ_UNCOMMITTED
        firsts = _offsets(client, here, EARLIEST, isolation)
        ends = _offsets(client, here, LATEST, isolation)
        compacted = _compacted(client, sorted({each.topic for each in here}))
        return {
            each: Present(
                "" if topics[each.topic].id == ZERO_UUID else uuid_text(topics[each.topic].id),
                firsts[each],
                ends[each],
                each.topic in compacted,
            )
            for each in here
        }


def _offsets(client: Client, wanted: list[TopicPartition], where: int, isolation: int) -> dict[TopicPartition, int]:
    offsets = {}
    for partition, found in list_offsets(client, dict.fromkeys(wanted, where), isolation=isolation).items():
        if not isinstance(found, FoundOffset):
            raise found
        offsets[partition] = found.offset
    return offsets


def _compacted(client: Client, topics: list[str]) -> set[str]:
    described = Admin(client).describe_configs(ResourceType.TOPIC, topics)
    return {
        topic
        for topic, settings in described.items()
        if any(each.name == "cleanup.policy" and "compact" in (each.value or "") for each in settings)
    }


class _Comparison:
    def __init__(self, spark: SparkSession, definition: Definition, contents: Contents, found: Scope) -> None:
        self.spark = spark
        self.definition = definition
        self.contents = contents
        self.scope = found
        given = {name.lower(): value for name, value in (*definition.source.items(), *definition.sink.items())}
        self._drops_nulls = given.get("decode") == "json" and given.get("nullvalues") == "drop"

    def by_offset(self, names: tuple[str, ...]) -> Verdict:
        from pyspark.sql import functions as f

        rows = self._rows(names)
        placed = rows.where("offset IS NOT NULL").groupBy(*PLACE).agg(f.count("*").alias("times_landed"))
        judged = self._judged(self._expected().join(placed, [*PLACE], "full_outer")).cache()
        try:
            totals = judged.agg(
                f.count_if("is_here").alias("records"),
                f.count_if(f.expr("is_here AND is_dead")).alias("dead"),
                f.count_if(f.expr("is_here AND is_dropped")).alias("dropped"),
                *[f.count_if(f.col("kind") == kind).alias(kind) for kind in KINDS],
            ).collect()[0]
            findings = tuple(_findings(judged.where("kind IS NOT NULL")))
        finally:
            judged.unpersist()
        count = rows.agg(f.count("*").alias("all"), f.count("offset").alias("placed")).collect()[0]
        return Verdict(
            totals["records"],
            count["all"],
            totals["dead"],
            totals["dropped"],
            self._skipped(),
            {kind: totals[kind] for kind in KINDS},
            findings,
            placeless=count["all"] - count["placed"],
            is_transformed=self.definition.transform is not None,
            notes=self.scope.notes,
        )

    def by_counts(self) -> Verdict:
        from pyspark.sql import functions as f

        if self.definition.transform is not None:
            raise LandingError(
                "the rows have no columns _topic, _partition and _offset, and a transform made them: they cannot be "
                "compared with the topic. Keep the columns in the transform"
            )
        if self.scope.notes or len(self.contents.positions) > 1:
            why = "; ".join(self.scope.notes) or "several pipelines land in the table"
            raise LandingError(f"the rows have no columns with their offsets, and counts say nothing here: {why}")
        totals = (
            self._expected()
            .agg(
                f.count("*").alias("records"),
                f.count_if("is_dead").alias("dead"),
                f.count_if("is_dropped").alias("dropped"),
            )
            .collect()[0]
        )
        rows = self._rows(()).count()
        counts = by_counts(totals["records"], rows, totals["dead"] + totals["dropped"])
        return Verdict(
            totals["records"], rows, totals["dead"], totals["dropped"], self._skipped(), counts, is_by_offset=False
        )

    def _skipped(self) -> int:
        return sum(skip.end - skip.begin for skip in self.scope.skipped)

    def _rows(self, names: tuple[str, ...]) -> DataFrame:
        """Where the rows of the table come from. A file without the columns has null there."""
        if not self.contents.files:
            return self.spark.createDataFrame([], _TYPES)
        if not names:
            return self.spark.read.parquet(*map(_literal, self.contents.files))
        kinds = dict(zip(names, ("STRING", "INT", "BIGINT"), strict=True))
        return reduce(lambda one, other: one.unionAll(other), self._parts(kinds)).toDF(*PLACE)

    def _parts(self, kinds: Mapping[str, str]) -> Iterator[DataFrame]:
        """Files that have the columns, and those of each partition that has some of them as its values."""
        from pyspark.sql import functions as f

        by_values: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
        for file in self.contents.files:
            constants = self.contents.constants.get(file, {})
            values = tuple((name, constants[name]) for name in kinds if name in constants)
            by_values.setdefault(values, []).append(_literal(file))
        schema = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
        for values, files in by_values.items():
            rows = self.spark.read.schema(schema).parquet(*files)
            for name, value in values:
                rows = rows.withColumn(name, f.lit(value).cast(kinds[name]))
            yield rows

    def _expected(self) -> DataFrame:
        """Each record of the topics within what is compared, and whether it has no row on purpose."""
        from pyspark.sql import functions as f

        bounds = _bounds(list(self.scope.compared))
        if not bounds:
            return self.spark.createDataFrame([], f"{_TYPES}, is_here BOOLEAN, is_dropped BOOLEAN, is_dead BOOLEAN")
        starts = {topic: {str(p): begin for p, (begin, _) in of.items()} for topic, of in bounds.items()}
        ends = {topic: {str(p): end for p, (_, end) in of.items()} for topic, of in bounds.items()}
        options = {
            "assign": json.dumps({topic: sorted(of) for topic, of in bounds.items()}),
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
            SKIPPED: json.dumps(self.scope.skipped),
        }
        schema = f"{_TYPES}, value BINARY" if self._drops_nulls else _TYPES
        records = self._topic(options).schema(schema).load()
        dropped = f.col("value").isNull() if self._drops_nulls else f.lit(False)
        records = records.select(*PLACE, f.lit(True).alias("is_here"), dropped.alias("is_dropped"))
        records = self._within(records, self._segments({each: 1 for each in self.scope.compared}, "of"), "inner")
        return self._with_dead(records.drop("of"))

    def _with_dead(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        topic = self.definition.dead_letter_topic
        if topic is None:
            return records.withColumn("is_dead", f.lit(False))
        letters = (
            self._topic({"subscribe": topic, "startingOffsets": "earliest"}).option("includeHeaders", "true").load()
        )
        named = f.map_from_entries(f.filter("headers", lambda header: header["key"].startswith(PREFIX)))
        places = letters.select(
            named[f"{PREFIX}topic"].cast("string").alias("topic"),
            named[f"{PREFIX}partition"].cast("string").cast("int").alias("partition"),
            named[f"{PREFIX}offset"].cast("string").cast("bigint").alias("offset"),
        )
        dead = places.distinct().withColumn("is_dead", f.lit(True))
        return records.join(dead, [*PLACE], "left").withColumn("is_dead", f.coalesce("is_dead", f.lit(False)))

    def _judged(self, both: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        both = self._within(both, self._segments(self.scope.covered, "times"), "left")
        both = self._within(both, self._segments(self.scope.compared, "is_whole"), "left")
        is_here, landed, of = f.coalesce("is_here", f.lit(False)), f.coalesce("times_landed", f.lit(0)), f.col("times")
        kind = (
            f.when((landed == 0) & is_here & ~f.col("is_dropped") & ~f.col("is_dead"), MISSING)
            .when((landed > 0) & of.isNull(), FOREIGN)
            .when((landed > 0) & f.coalesce("is_whole", f.lit(False)) & ~is_here, FOREIGN)
            .when(landed > of, DOUBLED)
        )
        return both.select(
            *PLACE,
            is_here.alias("is_here"),
            f.coalesce("is_dropped", f.lit(False)).alias("is_dropped"),
            f.coalesce("is_dead", f.lit(False)).alias("is_dead"),
            kind.alias("kind"),
        )

    def _topic(self, options: Mapping[str, str]) -> Any:
        own = ("kafka.group.id",)
        kept = {
            name: value
            for name, value in self.definition.source.items()
            if name.lower().startswith("kafka.") and name.lower() not in own
        }
        return self.spark.read.format("highwater").options(**kept, **options)

    def _segments(self, segments: Mapping[Segment, Any], name: str) -> DataFrame:
        from pyspark.sql import functions as f

        kind = "BOOLEAN" if name == "is_whole" else "INT"
        rows = [(*segment, value) for segment, value in segments.items()]
        schema = f"topic STRING, partition INT, begin BIGINT, end BIGINT, {name} {kind}"
        return f.broadcast(self.spark.createDataFrame(rows, schema))

    def _within(self, rows: DataFrame, segments: DataFrame, how: str) -> DataFrame:
        """Segments are disjoint, so a row meets at most one."""
        from pyspark.sql import functions as f

        on = (
            (rows["topic"] == segments["topic"])
            & (rows["partition"] == segments["partition"])
            & f.col("offset").between(segments["begin"], segments["end"] - 1)
        )
        met = rows.join(segments, on, how)
        return met.drop(segments["topic"], segments["partition"], "begin", "end")


def _literal(file: str) -> str:
    """A path that Spark does not take for a pattern."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", file)


def _bounds(segments: list[Segment]) -> dict[str, dict[int, tuple[int, int]]]:
    """The first and the last offset of each partition: one range for each is read."""
    bounds: dict[str, dict[int, tuple[int, int]]] = {}
    for topic, partition, begin, end in segments:
        of_topic = bounds.setdefault(topic, {})
        first, last = of_topic.get(partition, (begin, end))
        of_topic[partition] = min(first, begin), max(last, end)
    return bounds


def _findings(wrong: DataFrame) -> list[Finding]:
    """Neighbouring offsets of one kind as one range."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("kind", "topic", "partition").orderBy("offset")
    islands = wrong.withColumn("island", f.col("offset") - f.row_number().over(order))
    ranges = islands.groupBy("kind", "topic", "partition", "island").agg(
        f.min("offset").alias("first"), f.max("offset").alias("last")
    )
    rows = ranges.orderBy("topic", "partition", "first", "kind").limit(MOST_FINDINGS).collect()
    return [Finding(row["kind"], row["topic"], row["partition"], row["first"], row["last"]) for row in rows]
