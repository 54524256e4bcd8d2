"""Spark, pipelines and a secured Apache Kafka: each mechanism works, each refusal is one line, and no secret shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from highwater.client import Admin, Client, NewTopic, Producer
from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.model import TopicPartition
from tests.pipeline.quick_python import written_to
from tests.secured import MECHANISMS, PASSWORD, SecuredKafka, jaas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ENDS = 240.0
WRONG = "wr0ng-Pa55"
PIPELINE = """\
name: guarded
source:
  bootstrap_servers: {servers}
  topic: {topic}
  group: {topic}-lake
  options:
    kafka.security.protocol: SASL_SSL
    kafka.sasl.mechanism: SCRAM-SHA-512
    kafka.sasl.jaas.config: {jaas}
    kafka.ssl.truststore.location: {authority}
decode:
  format: json
  schema: id BIGINT NOT NULL
  dead_letters: {topic}-bad
sink:
  table: delta
  path: tables/guarded
trigger: available-now
spark:
  conf:
    spark.eventLog.enabled: true
    spark.eventLog.compress: false
    spark.eventLog.dir: {events}
"""


def topics(kafka: SecuredKafka, *names: str) -> None:
    with Client(kafka.bootstrap) as client:
        Admin(client).create_topics([NewTopic(name, 1, 1) for name in names])


@pytest.mark.parametrize(("listener", "mechanism"), [("TLS", None), *(("NAMEDTLS", each) for each in MECHANISMS)])
def test_rows_go_to_a_secured_topic_and_come_back(
    secured_kafka: SecuredKafka, spark: SparkSession, tmp_path: Path, listener: str, mechanism: str | None
) -> None:
    topic = f"rows-{listener}-{mechanism}"
    topics(secured_kafka, topic)
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"alice={PASSWORD}\n")
    settings = secured_kafka.settings(listener, mechanism, f"${{file:{secrets}:alice}}")
    options = {f"kafka.{name}": value for name, value in settings.items()}
    options["kafka.bootstrap.servers"] = secured_kafka.at(listener)
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("highwater").mode("append").options(topic=topic, **options).save()
    found = spark.read.format("highwater").options(subscribe=topic, **options).load()
    assert sorted(int(row.value) for row in found.collect()) == list(range(10))


class Project:
    """A pipeline from a topic with ten good records and a bad one to a Delta table, in direct mode."""

    def __init__(self, folder: Path, kafka: SecuredKafka, topic: str) -> None:
        self.folder = folder
        self.events = folder / "events"
        self.events.mkdir()
        topics(kafka, topic, f"{topic}-bad")
        with Client(kafka.bootstrap) as client:
            values = [b"not json", *(json.dumps({"id": number}).encode() for number in range(10))]
            now = time.time_ns() // 1_000_000  # Kafka deletes older records before they are read
            Producer(client).send(TopicPartition(topic, 0), [(now, None, value, []) for value in values])
        self.text = PIPELINE.format(
            servers=kafka.at("NAMEDTLS"),
            topic=topic,
            jaas=json.dumps(jaas("SCRAM-SHA-512", "${env:ALICES_WORD}")),
            authority=kafka.certificates.authority,
            events=self.events,
        )
        self.write(self.text)

    def write(self, text: str) -> None:
        (self.folder / "pipeline.yml").write_text(text)

    def run(self, *command: str, password: str) -> subprocess.CompletedProcess[str]:
        """The environment is all that knows the password: that of the JVM and of its workers is made from it."""
        python = written_to(self.folder / "python", ["delta"])
        return subprocess.run(
            [sys.executable, "-m", "highwater", "pipeline", *command],
            cwd=self.folder,
            env={**os.environ, "ALICES_WORD": password, "PYSPARK_PYTHON": str(python)},
            capture_output=True,
            text=True,
            timeout=ENDS,
        )

    def files_with(self, text: str) -> list[Path]:
        """Tables, checkpoints, status, logs and Spark's event log."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return [path for path in files if text.encode() in path.read_bytes()]


def test_a_pipeline_lands_a_secured_topic_and_its_secret_is_nowhere(
    secured_kafka: SecuredKafka, tmp_path: Path
) -> None:
    project = Project(tmp_path, secured_kafka, "guarded")
    outputs = []
    for command in (["land", "--check"], ["land"], ["status"], ["position", "--export"]):
        done = project.run(*command, password=PASSWORD)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        outputs += [done.stdout, done.stderr]
    assert sorted(DeltaTable(tmp_path / "tables/guarded").to_pyarrow_table()["id"].to_pylist()) == list(range(10))
    assert "guarded-lake  guarded  0          11         11   0" in outputs[4]
    letters = TopicPartition("guarded-bad", 0)
    with Client(secured_kafka.bootstrap) as client:
        stored = list_offsets(client, {letters: LATEST})[letters]
    assert isinstance(stored, FoundOffset) and stored.offset == 1, "dead letters are written as the topic is read"
    assert PASSWORD not in "".join(outputs)
    assert project.files_with("SparkListenerSQLExecutionStart"), "there is an event log"
    assert project.files_with(PASSWORD) == []


def test_a_pipeline_with_a_wrong_password_ends_with_one_line(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    project = Project(tmp_path, secured_kafka, "refused")
    done = project.run("land", password=WRONG)
    output = done.stdout + done.stderr
    assert done.returncode == 1 and output.count("refused user alice with SCRAM-SHA-512") == 1, output
    assert "again in" not in output and "Traceback" not in output
    assert WRONG not in output and project.files_with(WRONG) == []


def test_a_query_whose_password_is_revoked_names_the_broker_and_no_secret(
    secured_kafka: SecuredKafka, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's own text of the failure has the plan with all options in it."""
    from highwater.pipeline.failures import failure_of

    topics(secured_kafka, "revoked")
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"alice={WRONG}\n")
    settings = secured_kafka.settings("NAMEDTLS", "PLAIN", f"${{file:{secrets}:alice}}")
    options = {f"kafka.{name}": value for name, value in settings.items()}
    options["kafka.bootstrap.servers"] = secured_kafka.at("NAMEDTLS")
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    writer = rows.writeStream.format("highwater").options(topic="revoked", **options)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match="refused user alice") as caught:
        query.awaitTermination(ENDS)
    failure = failure_of(caught.value)
    assert failure.is_final and secured_kafka.at("NAMEDTLS") in failure.cause
    assert WRONG not in str(caught.value)
