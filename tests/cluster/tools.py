"""Apache's tools beside ours: the same arguments to both, and what they print made comparable."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from highwater.cli import main
from tests import apache as kafka
from tests.apache import Ran

MAIN_CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "storage": "kafka.tools.StorageTool",
}

_TOPIC_ID = re.compile(r"TopicId: \S{22}")
_TIME = re.compile(r"\b1[5-9]\d{11}\b")


class Call(NamedTuple):
    """One run of a tool."""

    tool: str
    args: tuple[str, ...]
    input: str = ""


class Server(NamedTuple):
    """A cluster under test, and the data directory of its first node."""

    bootstrap: str
    log_dir: Path
    is_ours: bool = False
    """Then it has no transactions."""


def call(tool: str, *args: str, input: str = "") -> Call:
    if tool == "console-producer":
        # Apache's gives a request 1.5 seconds, and then drops its lines: too little for a busy machine.
        args = (*args, "--request-timeout-ms", "60000")
    return Call(tool, args, input)


def apache(calls: Sequence[Call]) -> list[Ran]:
    """One after the other, in a JVM that stays."""
    return kafka.run_tools([kafka.Call(MAIN_CLASSES[each.tool], each.args, each.input) for each in calls])


def ours(each: Call) -> Ran:
    """In this process: the tools hold nothing between calls."""
    arguments = [each.tool, *each.args]
    before = sys.argv
    sys.argv = ["highwater", *arguments]
    try:
        done = CliRunner().invoke(main, arguments, input=each.input)
    finally:
        sys.argv = before
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.stdout, _without_delays(done.stderr), done.exit_code)


def ours_as_process(each: Call) -> Ran:
    """In a process of its own, with real pipes."""
    command = [sys.executable, "-c", "from highwater.cli import main; main()", each.tool, *each.args]
    done = subprocess.run(command, input=each.input, capture_output=True, text=True, check=False, timeout=60)
    return Ran(done.stdout, _without_delays(done.stderr), done.returncode)


def _without_delays(stderr: str) -> str:
    """What our tools say while they wait is about a busy machine."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("Still "))


def masked(text: str) -> list[str]:
    """The lines, without what differs from run to run: ids and times."""
    return [_TIME.sub("<time>", _TOPIC_ID.sub("TopicId: <id>", line)) for line in text.splitlines()]


def reason(stderr: str) -> str:
    """The first line that a tool itself wrote to stderr: ahead of usage texts and stack traces."""
    own = [line for line in stderr.splitlines() if line and not line.startswith(("SLF4J", "[main]", "log4j"))]
    return own[0] if own else ""


def difference(left: Iterable[str], right: Iterable[str]) -> str:
    """The first lines that differ, for a message."""
    for number, (one, other) in enumerate(zip(left, right, strict=False), start=1):
        if one != other:
            return f"line {number}:\n  apache {one}\n  ours   {other}"
    return "one output is longer than the other"
