"""One line says why a query failed, and errors that the same input would give again are known as such."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from highwater.client.failures import Unreachable
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.pipeline.checkpoint import InUse
from highwater.pipeline.failures import LONGEST, Failure, failure_in, failure_of
from highwater.pipeline.landing.rule import Fenced, LandingError, Misfit
from highwater.pipeline.loss import deleted, expired
from highwater.pipeline.selection import BadOption

PLAN = """\
=== Streaming Query ===
Identifier: n [id = f980ee99, runId = f26a5f15]
Current Committed Offsets: {}

Current State: ACTIVE
Thread State: RUNNABLE

Logical Plan:
WriteToMicroBatchDataSource highwater-table
+- ~StreamingDataSourceV2ScanRelation[topic#14, topic_id#15, partition#16] highwater
"""


def wrapped(raised: str, code: str = "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR") -> str:
    """As Spark 4.2 reports what a data source in Python raised."""
    return (
        "[STREAM_FAILED] Query [id = f980ee99, runId = f26a5f15] terminated with exception: "
        f"[{code}] Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):\n"
        '  File "stream.py", line 65, in latestOffset\n'
        "    return self._driver.next_end(start)\n"
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        f"{raised}\n SQLSTATE: 38000 SQLSTATE: XXKST\n{PLAN}"
    )


REFUSED = "highwater.client.failures.Unreachable: cannot connect to 127.0.0.1:1: Connection refused"
ABORTED = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 in stage \
1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "fetching.py", line 9, in fetched
    raise error
highwater.pipeline.fetching.NothingCame: no record of t-0 at or after offset 7

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "worker.py", line 3, in main
    process()
pyarrow.lib.ArrowInvalid: a column is too short

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace: SQLSTATE: XXKST
"""


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (wrapped(REFUSED), Failure("cannot connect to 127.0.0.1:1: Connection refused", is_final=False)),
        (
            wrapped("highwater.pipeline.selection.BadOption: the cluster has no nope, which the query is to read"),
            Failure("the cluster has no nope, which the query is to read", is_final=True),
        ),
        (wrapped("ValueError: mine\nin two lines", "PYTHON_EXCEPTION"), Failure("ValueError: mine in two lines", True)),
        (
            wrapped("OSError: [Errno 28] No space left on device"),
            Failure("OSError: [Errno 28] No space left on device", False),
        ),
        (wrapped("KeyError"), Failure("KeyError", is_final=True)),
        (wrapped("shop.rules.Odd: who knows"), Failure("shop.rules.Odd: who knows", is_final=False)),
        (
            wrapped("highwater.errors.KafkaError: t-0: a record that takes 9 bytes is larger than 5 bytes"),
            Failure("t-0: a record that takes 9 bytes is larger than 5 bytes", is_final=True),
        ),
        (
            wrapped("highwater.errors.KafkaError: the partition has no leader now"),
            Failure("the partition has no leader now", is_final=False),
        ),
        (ABORTED, Failure("pyarrow.lib.ArrowInvalid: a column is too short", is_final=True)),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [DIVIDE_BY_ZERO] Division by zero. "
            f"SQLSTATE: 22012 SQLSTATE: XXKST\n{PLAN}",
            Failure("[DIVIDE_BY_ZERO] Division by zero.", is_final=True),
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job 3 cancelled because SparkContext "
            f"was shut down SQLSTATE: XXKST\n{PLAN}",
            Failure("Job 3 cancelled because SparkContext was shut down", is_final=False),
        ),
    ],
)
def test_the_cause_is_found_in_sparks_message(text: str, failure: Failure) -> None:
    assert failure_in(text) == failure


def test_an_error_raised_here_keeps_its_own_words() -> None:
    assert failure_of(BadOption("no such topic")) == Failure("no such topic", is_final=True)
    for kind in (LandingError, Misfit, Fenced, InUse):
        assert failure_of(kind("another driver")) == Failure("another driver", is_final=True)
    assert failure_of(Unreachable("nobody there")) == Failure("nobody there", is_final=False)
    assert failure_of(ZeroDivisionError("by zero")) == Failure("ZeroDivisionError: by zero", is_final=True)
    assert failure_of(TimeoutError()) == Failure("TimeoutError", is_final=False)
    assert failure_of(AnalysisException("no column `x`\n'Project ['x]\n+- more")) == Failure("no column `x`", True)


def test_a_code_decides_whether_trying_again_can_help() -> None:
    assert failure_of(KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)).is_final
    assert not failure_of(KafkaError(Code.LEADER_NOT_AVAILABLE)).is_final
    assert not failure_of(KafkaError(Code.UNKNOWN_SERVER_ERROR)).is_final


def test_a_topic_that_one_broker_does_not_know_may_be_known_to_the_next() -> None:
    assert not failure_of(deleted(TopicPartition("t", 0), 5)).is_final
    assert failure_of(expired(TopicPartition("t", 0), 5, 9)).is_final


def test_a_cause_is_one_line_and_not_a_long_one() -> None:
    cause = failure_of(ValueError("word\n" * 1000)).cause
    assert "\n" not in cause and len(cause) == LONGEST
