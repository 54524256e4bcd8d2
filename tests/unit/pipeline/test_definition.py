"""A definition is checked as a whole, before any Spark: every mistake is one line that names file, line and key."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from highwater.cli import main
from highwater.pipeline import Pipeline
from highwater.pipeline.definition import Definition
from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.project import NotEmpty, write_project
from highwater.pipeline.restarting import Restart
from highwater.pipeline.sections import Mistake, duration
from highwater.pipeline.yaml_file import BadDefinition, load

DOCUMENT = Path(__file__).parents[3] / "docs/pipeline.md"
GOOD = """\
name: orders
source:
  bootstrap_servers: 127.0.0.1:9092
  topic: orders
  group: orders-lake
decode:
  format: json
  schema: id BIGINT NOT NULL, note STRING
  dead_letters: orders.bad
sink:
  table: delta
  path: tables/orders
trigger: 1s
"""


def loaded(folder: Path, text: str) -> Definition:
    file = folder / "pipeline.yml"
    file.write_text(text)
    return load(file)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(BadDefinition) as refused:
        loaded(folder, text)
    message = str(refused.value)
    assert "\n" not in message
    prefix = f"{folder / 'pipeline.yml'}:"
    assert message.startswith(prefix)
    return message.removeprefix(prefix)


def test_a_good_file_gives_the_options_of_source_and_sink(tmp_path: Path) -> None:
    definition = loaded(tmp_path, GOOD)
    assert definition.mode == "direct"
    assert definition.source == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "startingOffsets": "earliest",
        "subscribe": "orders",
        "kafka.group.id": "orders-lake",
        "kafka.isolation.level": "read_committed",
        "maxBytesPerTrigger": str(1 << 30),
        "emit": "ranges",
    }
    assert definition.sink_format == "highwater-table"
    assert definition.sink == {
        "table": "delta",
        "path": str(tmp_path / "tables/orders"),
        "decode": "json",
        "schema": "id BIGINT NOT NULL, note STRING",
        "keep": "topic,partition,offset,timestamp",
        "nullValues": "row",
        "deadLetterTopic": "orders.bad",
    }
    assert definition.checkpoint == str(tmp_path / "checkpoints/orders")
    assert definition.trigger_seconds == 1.0


def test_a_file_that_says_nothing_of_it_has_a_batch_a_minute_with_a_limit_of_bytes(tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD.replace("trigger: 1s\n", "")).trigger_seconds == 60.0
    limited = GOOD.replace("  group:", "  max_bytes_per_trigger: 5000\n  group:")
    assert loaded(tmp_path, limited).source["maxBytesPerTrigger"] == "5000"


def test_figures_are_served_on_the_loopback_unless_the_file_names_an_address(tmp_path: Path) -> None:
    definition = loaded(tmp_path, GOOD + "metrics: {port: 9464}\n")
    assert (definition.metrics_port, definition.metrics_address) == (9464, "127.0.0.1")
    assert loaded(tmp_path, GOOD + "metrics: {port: 9464, address: 0.0.0.0}\n").metrics_address == "0.0.0.0"
    with pytest.raises(BadDefinition, match="metrics.address: is 'here': expected an IP address"):
        loaded(tmp_path, GOOD + "metrics: {address: here}\n")


def test_partitions_are_an_option_of_the_table_and_of_no_topic(tmp_path: Path) -> None:
    by = GOOD.replace("  table: delta", "  partition_by: [country, days(_timestamp)]\n  table: delta")
    assert loaded(tmp_path, by).sink["partitionBy"] == "country,days(_timestamp)"
    with pytest.raises(BadDefinition, match=r"sink.partition_by: option partitionBy: 'weeks\(at\)' is no partition"):
        loaded(tmp_path, by.replace("days(_timestamp)", "weeks(at)"))
    topic = GOOD[: GOOD.index("sink:")] + "sink: {topic: clean, partition_by: id}\n"
    with pytest.raises(BadDefinition, match="sink.partition_by: is of a table, and the sink is a topic"):
        loaded(tmp_path, topic)


def test_columns_are_merged_by_a_key_of_the_table(tmp_path: Path) -> None:
    settled = GOOD.replace("  table: delta", "  merge_schema: false\n  table: delta")
    assert loaded(tmp_path, settled).sink["mergeSchema"] == "false"
    assert "mergeSchema" not in loaded(tmp_path, GOOD).sink
    with pytest.raises(BadDefinition, match="sink.merge_schema: expected true or false, found 'no'"):
        loaded(tmp_path, settled.replace("false", "'no'"))
    topic = GOOD[: GOOD.index("sink:")] + "sink: {topic: clean, merge_schema: true}\n"
    with pytest.raises(BadDefinition, match="sink.merge_schema: is of a table, and the sink is a topic"):
        loaded(tmp_path, topic)


def test_what_was_aborted_lands_only_where_the_file_says_so(tmp_path: Path) -> None:
    said = GOOD.replace("  group:", "  options: {Kafka.Isolation.Level: read_uncommitted}\n  group:")
    source = loaded(tmp_path, said).source
    assert {name.lower(): value for name, value in source.items()}["kafka.isolation.level"] == "read_uncommitted"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("  keep: [key]", "key"),
        ("  keep: []", None),
        ("  schema: id BIGINT, _offset BIGINT", "topic,partition,timestamp"),
        ("", "topic,partition,offset,timestamp"),
    ],
)
def test_a_row_keeps_its_place_in_the_topic_unless_the_file_says_otherwise(
    tmp_path: Path, said: str, kept: str | None
) -> None:
    text = GOOD.replace("  schema: id BIGINT NOT NULL, note STRING", said) if "schema" in said else GOOD
    text = text if "schema" in said else text.replace("  dead_letters: orders.bad", said)
    assert loaded(tmp_path, text).sink.get("keep") == kept


def test_rows_for_a_topic_keep_nothing_that_was_not_asked_for(tmp_path: Path) -> None:
    """A transform may make a value of all columns."""
    text = GOOD.replace("table: delta", "topic: clean").replace("  path: tables/orders\n", "")
    assert "keep" not in loaded(tmp_path, text + "transform: clean.py:clean\n").source


def test_with_a_transform_the_source_decodes(tmp_path: Path) -> None:
    definition = loaded(tmp_path, GOOD + "transform: clean.py:clean\n")
    assert definition.mode == "connector"
    assert definition.source["decode"] == "json"
    assert "emit" not in definition.source
    assert "decode" not in definition.sink


def test_a_topic_is_a_sink_too(tmp_path: Path) -> None:
    text = GOOD.replace("  table: delta\n  path: tables/orders\n", "  topic: copies\n")
    assert "7: decode.format: is 'json', but a topic takes a column value" in refusal(tmp_path, text)
    text += "transform: pack.py:pack\n"
    definition = loaded(tmp_path, text)
    assert (definition.sink_format, definition.mode) == ("highwater", "connector")
    assert definition.sink == {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "copies"}


def secured(password: str) -> str:
    return f"""\
  options:
    kafka.security.protocol: SASL_PLAINTEXT
    kafka.sasl.mechanism: PLAIN
    kafka.sasl.jaas.config: 'a.PlainLoginModule required username="alice" password="{password}";'
"""


def test_secrets_are_references_that_nothing_looks_up(tmp_path: Path) -> None:
    definition = loaded(tmp_path, GOOD.replace("decode:\n", secured("${env:NOT_THERE}") + "decode:\n"))
    assert "${env:NOT_THERE}" in definition.source["kafka.sasl.jaas.config"]
    with pytest.raises(ValueError, match="no variable NOT_THERE"):
        definition.security.access()


@pytest.mark.parametrize("secret", ["s3cret", "s3cret${env:X}", "${S3CRET}"])
@pytest.mark.parametrize("section", ["source", "sink"])
def test_a_secret_that_is_written_out_is_refused_and_not_shown(tmp_path: Path, secret: str, section: str) -> None:
    to_topic = GOOD.replace("  table: delta\n  path: tables/orders\n", "  topic: copies\n") + "transform: a.py:b\n"
    before = {"source": "decode:\n", "sink": "trigger:"}[section]
    message = refusal(tmp_path, to_topic.replace(before, secured(secret) + before))
    assert (
        f"{section}.options.kafka.sasl.jaas.config: kafka.sasl.jaas.config: the secret in it is written out" in message
    )
    assert "${env:NAME}" in message and "s3cret" not in message.lower()


def test_the_secured_source_of_the_document_is_a_good_one(tmp_path: Path) -> None:
    [block] = re.findall(r"^```yaml\n(source:\n.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    definition = loaded(tmp_path, f"name: orders\n{block}sink:\n  table: delta\n  path: tables/orders\n")
    assert dict(definition.security.settings)["sasl.mechanism"] == "SCRAM-SHA-512"


def test_a_sink_topic_beside_its_source_has_its_security(tmp_path: Path) -> None:
    text = GOOD.replace("decode:\n", secured("${env:A}") + "decode:\n") + "transform: a.py:b\n"
    beside = loaded(tmp_path, text.replace("  table: delta\n  path: tables/orders\n", "  topic: copies\n"))
    assert dict(beside.sink_security.settings) == dict(beside.security.settings) != {}
    elsewhere = text.replace("  table: delta\n  path: tables/orders\n", "  topic: a\n  bootstrap_servers: h:1\n")
    assert loaded(tmp_path, elsewhere).sink_security.settings == ()


WRONG = {
    "not YAML": (GOOD.replace("name: orders", "name: [orders"), "2: not YAML: "),
    "unknown key": (GOOD.replace("  topic:", "  topc:"), "4: source.topc: is not a key here; did you mean topic?"),
    "missing key": (GOOD.replace("  topic: orders\n", ""), "2: source: topic is missing (or pattern)"),
    "no servers": (
        GOOD.replace("127.0.0.1:9092", "localhost"),
        "3: source.bootstrap_servers: Invalid url in bootstrap.servers: localhost",
    ),
    "wrong schema": (
        GOOD.replace("BIGINT", "BIGNIT"),
        "8: decode.schema: unknown type 'BIGNIT' of the field id; known are",
    ),
    "wrong table": (
        GOOD.replace("table: delta", "table: detla"),
        "11: sink.table: is 'detla': it must be one of delta, iceberg, parquet",
    ),
    "wrong trigger": (
        GOOD.replace("trigger: 1s", "trigger: soon"),
        "13: trigger: is 'soon': expected available-now or",
    ),
    "contradiction": (
        GOOD + "transform: clean.py:clean\nmode: direct\n",
        "15: mode: is 'direct', but a transform needs the rows in Spark: use connector",
    ),
    "wrong kind": (
        GOOD + "restart:\n  attempts: often\n",
        "15: restart.attempts: expected a whole number, found 'often'",
    ),
    "nothing to import them": (
        GOOD + "py_files: rules.py\n",
        "14: py_files: is given without a transform: only a transform imports these modules",
    ),
    "no such module": (
        GOOD + "transform: clean.py:clean\npy_files:\n  - rules.py\n",
        "15: py_files: names 'rules.py': there is no /",
    ),
    "key twice": (GOOD + "name: again\n", "14: name: is given twice"),
    "wrong option": (
        GOOD.replace("  group: orders-lake\n", "  options:\n    failOnDataLos: false\n"),
        "6: source.options.failOnDataLos: option failOnDataLos (given: 'false') is not known; did you",
    ),
    "group without group": (
        GOOD.replace("group: orders-lake", "starting_offsets: group"),
        "5: source.starting_offsets: is 'group', which needs the key group beside it",
    ),
    "keeps what is not there": (
        GOOD.replace("  dead_letters: orders.bad", "  keep: [offset, length]"),
        "9: decode.keep: names 'length': it can name key, topic,",
    ),
    "option of the sink": (
        GOOD.replace("  path: tables/orders", "  path: tables/orders\n  options:\n    compression: rar"),
        "14: sink.options.compression: option compression is 'rar': it must be one of",
    ),
    "said twice": (
        GOOD.replace("  path: tables/orders", "  path: tables/orders\n  options:\n    Path: elsewhere"),
        "14: sink.options.Path: is already set by a key of sink",
    ),
    "two sinks": (GOOD.replace("  path:", "  topic:"), "12: sink.topic: table and topic exclude each other"),
    "empty": ("", "1: the file is empty"),
    "a list": ("- a\n", "1: expected keys with values, found a list"),
    "its own dead letters": (
        GOOD.replace("  topic: orders", "  pattern: orders"),
        "9: decode.dead_letters: is 'orders.bad', which source.pattern 'orders' (it is searched for anywhere in a "
        "name; ^orders$ is the whole name) selects: the pipeline would read its own dead letters",
    ),
    "dead letters into the source": (
        GOOD.replace("dead_letters: orders.bad", "dead_letters: orders"),
        "9: decode.dead_letters: is 'orders', which source.topic selects",
    ),
    "what it wrote": (
        GOOD.replace("  table: delta\n  path: tables/orders\n", "  topic: orders\n") + "transform: pack.py:pack\n",
        "11: sink.topic: is 'orders', which source.topic selects: the pipeline would read what it wrote",
    ),
    "schema without format": (GOOD.replace("  format: json\n", ""), "7: decode.schema: is given without format: json"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_file_gives_one_error_that_names_line_and_key(tmp_path: Path, kind: str) -> None:
    text, expected = WRONG[kind]
    assert expected in refusal(tmp_path, text)


def test_a_sink_topic_that_is_not_read_is_no_loop(tmp_path: Path) -> None:
    loaded(tmp_path, GOOD.replace("  topic: orders", "  pattern: ^orders$"))

    def to_topic(sink: str) -> Definition:
        text = GOOD.replace("  table: delta\n  path: tables/orders\n", sink) + "transform: pack.py:pack\n"
        return loaded(tmp_path, text)

    assert to_topic("  topic: copies\n").sink_is_at_source
    assert not to_topic("  topic: orders\n  bootstrap_servers: far:9092\n").sink_is_at_source


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadDefinition, match="none.yml: No such file"):
        load(tmp_path / "none.yml")


def test_checking_starts_no_jvm(tmp_path: Path) -> None:
    """Where there is no Java at all, a file is checked all the same."""
    (tmp_path / "pipeline.yml").write_text(GOOD.replace("BIGINT", "BIGNIT"))
    ran = subprocess.run(
        [sys.executable, "-m", "highwater", "pipeline", "land", "pipeline.yml"],
        cwd=tmp_path,
        env={"PATH": "", "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("pipeline.yml:8: decode.schema: unknown type 'BIGNIT'")
    assert ran.stderr.count("\n") == 1


def test_a_transform_that_is_not_there_is_found_by_checking_alone(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(GOOD + "\nmode: connector\ntransform: missing.py:clean\n")
    ran = CliRunner().invoke(main, ["pipeline", "land", str(tmp_path / "pipeline.yml"), "--check"])
    assert ran.exit_code == 1
    assert f"transform: there is no file {tmp_path / 'missing.py'}" in ran.output


def test_the_same_in_python_is_checked_the_same_way() -> None:
    def clean(frame: object) -> object:
        return frame

    pipeline = (
        Pipeline("orders")
        .source("127.0.0.1:9092", topic="orders", decode="json", schema="id INT", dead_letters="bad", group="g")
        .transform(clean)
        .sink(table="delta", path="tables/orders")
    )
    definition = pipeline.definition("available-now")
    assert definition.transform is clean
    assert definition.trigger_seconds is None
    assert definition.source["schema"] == "id INT"
    with pytest.raises(Mistake, match="^sink.table: is 'detla'"):
        pipeline.sink(table="detla", path="x").definition()


def test_waits_double_up_to_the_longest_and_end_after_the_last_attempt() -> None:
    restart = Restart(attempts=4, backoff_seconds=1.0, max_backoff_seconds=3.0)
    assert [restart.wait(failures) for failures in range(1, 6)] == [1.0, 2.0, 3.0, 3.0, None]


def test_durations_have_a_unit() -> None:
    assert [duration(text) for text in ("500ms", "2s", "5 m", "1h")] == [0.5, 2.0, 300.0, 3600.0]
    for text in ("", "5", "0s", "s", "-1s"):
        with pytest.raises(ValueError, match="is no duration"):
            duration(text)


def test_the_project_that_init_writes_is_a_good_definition(tmp_path: Path) -> None:
    paths = write_project(tmp_path / "new", "127.0.0.1:9092")
    assert [path.name for path in paths] == ["pipeline.yml", "produce.py", "README.md"]
    assert load(paths[0]).mode == "direct"
    compile(paths[1].read_text(), "produce.py", "exec")
    with pytest.raises(NotEmpty, match="pipeline.yml is there already"):
        write_project(tmp_path / "new", "127.0.0.1:9092")


def test_the_declarative_project_is_one_that_spark_loads_and_lands_by_our_options(tmp_path: Path) -> None:
    """Spark's own command for it needs packages that are not there, and a run of it half a minute."""
    paths = write_project(tmp_path / "new", "127.0.0.1:9092", "declarative")
    folder = tmp_path / "new"
    assert [str(path.relative_to(folder)) for path in paths] == [
        "spark-pipeline.yml",
        "transformations/orders.py",
        "produce.py",
        "README.md",
    ]
    spec = yaml.safe_load(paths[0].read_text())
    assert set(spec) <= {"name", "storage", "libraries", "configuration"}
    assert spec["storage"] == f"file://{folder}/storage"
    called: dict[str, Any] = {}
    graph = SimpleNamespace(
        create_sink=lambda *given: called.update(sink=given),
        append_flow=lambda target: lambda flow: called.update(target=target, flow=flow),
    )
    source = SimpleNamespace(options={}, load=lambda: source)
    source.option = lambda name, value: source.options.update({name: value}) or source
    source.format = lambda name: called.update(format=name) or source
    text = paths[1].read_text().replace("from pyspark import pipelines as dp\n", "")
    exec(compile(text, "orders.py", "exec"), {"dp": graph, "spark": SimpleNamespace(readStream=source)} | called)
    called["flow"]()
    name, sink_format, options = called["sink"]
    assert (name, sink_format, called["format"]) == (called["target"], "highwater-table", "highwater")
    assert Landing.from_options(options).table == DeltaTable(f"{folder}/tables/orders")
    assert SourceOptions.parse(source.options, streaming=True).selection.topics == ("orders",)
