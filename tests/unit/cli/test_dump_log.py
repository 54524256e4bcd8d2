"""dump-log on files that are not what they should be."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from highwater.cli import main
from highwater.cli.record_decoders import decode_metadata, describe_control
from highwater.cli.record_json import SINCE, TAGGED, UNTIL, UUIDS, to_json
from highwater.kernel import Record
from highwater.metadata.records import encode
from highwater.model import Uuid
from highwater.wire.messages.index import MODULES
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.register_broker_record import RegisterBrokerRecord
from highwater.wire.records import build
from tests.apache import classpath_file

LOG = "00000000000000000000.log"
BATCH = bytes(build([(5, b"k", b"v", [("h", b"1")]), (6, None, None, ())], base_offset=0))


def dump(*args: str) -> Result:
    return CliRunner().invoke(main, ["dump-log", *args])


def test_a_batch_and_its_records_are_printed(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(BATCH)
    found = dump("--files", str(tmp_path / LOG), "--print-data-log")

    assert found.stdout.splitlines()[:2] == [f"Dumping {tmp_path / LOG}", "Log starting offset: 0"]
    assert found.stdout.splitlines()[3:] == [
        "| offset: 0 CreateTime: 5 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h] key: k payload: v",
        "| offset: 1 CreateTime: 6 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []",
    ]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (struct.pack(">qi", 0, 3) + bytes(20), "Found record size 3 smaller than minimum record overhead"),
        (struct.pack(">qi", 0, 60) + bytes(60), "No batch of magic 2 at position 0"),
        (BATCH[:8] + struct.pack(">i", 20) + BATCH[12:], "No batch of magic 2 at position 0"),
        (BATCH[:57] + struct.pack(">i", 9) + BATCH[61:], "cannot be read"),
    ],
    ids=["a tiny size", "an old magic", "less than a header", "a wrong count"],
)
def test_a_log_that_is_none_is_refused(tmp_path: Path, data: bytes, complaint: str) -> None:
    (tmp_path / LOG).write_bytes(data)
    found = dump("--files", str(tmp_path / LOG), "--deep-iteration")

    assert found.exit_code == 1
    assert complaint in found.stderr


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.log", b""),
        ("x.checkpoint", b""),
        ("00000000000000000000.snapshot", b"\0"),
        ("00000000000000000000.snapshot", struct.pack(">hI", 9, 0)),
        ("00000000000000000000.snapshot", struct.pack(">hI", 1, 5) + b"\0\0\0\0"),
        ("00000000000000000000.txnindex", struct.pack(">hqqqq", 3, 1, 2, 3, 4)),
        ("leader-epoch-checkpoint", b"0\n2\n1 1\n"),
        ("leader-epoch-checkpoint", b"0\n1\n1 1 1\n"),
        ("replication-offset-checkpoint", b"\xff"),
        ("00000000000000000000.index", b"1234567890"),
    ],
)
def test_damage_is_printed_and_ends_with_an_error(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / LOG).write_bytes(BATCH)
    (tmp_path / name).write_bytes(data)
    found = dump("--files", str(tmp_path / name), "--index-sanity-check")
    assert found.exit_code == 1
    assert found.stderr


def test_a_missing_file_does_not_hide_the_next_one(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(BATCH)
    found = dump("--files", f"{tmp_path}/00000000000000000009.log,{tmp_path / LOG}")
    assert found.exit_code == 1
    assert "does not exist" in found.stderr
    assert "baseOffset: 0 lastOffset: 1 count: 2" in found.stdout


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, len(BATCH) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(BATCH)))
@example(at=BATCH.index(b"h"), byte=0x80, cut=0)
def test_dump_log_survives_every_damage_of_a_file(tmp_path: Path, at: int, byte: int, cut: int) -> None:
    data = bytearray(BATCH + BATCH)
    data[at] = byte
    (tmp_path / LOG).write_bytes(data[: len(data) - cut])
    for flags in (["--print-data-log"], ["--cluster-metadata-decoder"], ["--offsets-decoder"]):
        found = dump("--files", str(tmp_path / LOG), *flags)
        assert found.exception is None or isinstance(found.exception, SystemExit)


@given(st.binary(max_size=60))
def test_decoders_of_dump_log_survive_every_value(value: bytes) -> None:
    _, text = decode_metadata(Record(3, 0, None, b"\x01" + value, []))
    assert text is not None


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b"\0\0\0\1", b"\0\0\0\0\0\7", " endTxnMarker: COMMIT coordinatorEpoch: 7"),
        (b"\0\0\0\0", b"\0\0\0\0\0\7", " endTxnMarker: ABORT coordinatorEpoch: 7"),
        (b"\0\0\0\3", bytes(11), ' SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}'),
        (b"\0\0\0\5", b"\0\0\0\1\0", ' KRaftVersion {"version":0,"kRaftVersion":1}'),
        (b"\0\0\0\x63", b"", " controlType: UNKNOWN(99)"),
    ],
)
def test_control_records_are_spelled_out(key: bytes, value: bytes, text: str) -> None:
    assert describe_control(Record(0, 0, key, value, [])) == text


def test_unset_tagged_fields_are_left_out() -> None:
    change = PartitionChangeRecord(partition_id=1, topic_id=Uuid(bytes(16)), leader=3, isr=[3, 4])
    _, text = decode_metadata(Record(0, 0, None, encode(change), []))

    assert text == (
        '{"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":1,"topicId":"AAAAAAAAAAAAAAAAAAAAAA",'
        '"isr":[3,4],"leader":3}}'
    )


def test_fields_of_later_versions_are_left_out() -> None:
    record = RegisterBrokerRecord(broker_id=1)
    assert "inControlledShutdown" not in to_json(record, 0)
    assert "inControlledShutdown" in to_json(record, 1)


def definitions() -> list[dict[str, Any]]:
    """The definitions of records inside Kafka's jars."""
    found = []
    for jar in classpath_file().read_text().strip().split(":"):
        if not re.search(r"/kafka-(clients|metadata|group-coordinator|transaction-coordinator)-[\d.]+\.jar$", jar):
            continue
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith("common/") and name.endswith(".json"):
                    text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                    found.append(json.loads(text))
    return [each for each in found if each["type"] not in ("request", "response", "header") and each["name"] in MODULES]


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


def bounds(versions: str) -> tuple[int, int]:
    """First and last of `3`, `1-3` or `1+`."""
    numbers = [int(number) for number in re.findall(r"\d+", versions)]
    return numbers[0], 32767 if versions.endswith("+") else numbers[-1]


def structs(definition: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]], int]]:
    """Each with the first version in which there can be one."""
    first = bounds(definition["validVersions"])[0]
    pending = [(definition["name"], definition["fields"], first)]
    pending += [(struct["name"], struct["fields"], first) for struct in definition.get("commonStructs", ())]
    found = []
    while pending:
        name, fields, low = pending.pop()
        found.append((name, fields, low))
        for each in fields:
            if "fields" in each:
                since = bounds(each.get("versions") or each["taggedVersions"])[0]
                pending.append((each["type"].removeprefix("[]"), each["fields"], max(low, since)))
    return found


def test_the_tables_of_records_agree_with_kafkas_definitions(apache: None) -> None:
    """Which fields a version has, which are tagged, and which are ids."""
    ids: set[str] = set()
    for definition in definitions():
        last = bounds(definition["validVersions"])[1]
        for struct_name, fields, low in structs(definition):
            where = (MODULES[definition["name"]], struct_name)
            for each in fields:
                name = snake(each["name"])
                since, until = bounds(each.get("versions") or each["taggedVersions"])
                tagged = "taggedVersions" in each
                assert (name in TAGGED.get(where, ())) is tagged, (where, name)
                if not tagged:
                    assert SINCE.get(where, {}).get(name, low) == max(low, since), (where, name)
                    assert UNTIL.get(where, {}).get(name, last) == min(last, until), (where, name)
                if each["type"].removeprefix("[]") == "uuid":
                    ids.add(name)
    assert ids == UUIDS


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000000.index", "anything"])
def test_a_missing_file_is_reported(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(main, ["dump-log", "--files", f"{tmp_path / name},{tmp_path}"])
    assert done.exit_code == 1
    assert done.stderr == f"{tmp_path / name} does not exist\n{tmp_path} is not a file\n"
