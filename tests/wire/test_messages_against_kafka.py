"""The generated messages judged by Apache Kafka's own classes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from random import Random

from highwater.wire.codec import Malformed
from highwater.wire.messages.index import MODULES, load
from tests.wire.java.oracle import ask, classpath_file
from tests.wire.specimens import specimen

ROOT = Path(__file__).parents[2]
EVERY_VERSION = [
    (load(name), version) for name in MODULES for version in range(load(name).VERSIONS[0], load(name).VERSIONS[1] + 1)
]

STRICTER = re.compile(r"not UTF-8|more than 32 bits|\b[2-4]\d{9} (elements|bytes)")
"""Kafka puts U+FFFD for what is not UTF-8, and takes a count beyond 2^31 as negative and so as none. We refuse both."""


def test_the_checked_in_modules_are_what_the_definitions_generate(tmp_path: Path) -> None:
    script = ROOT / "scripts/generate_messages.py"
    subprocess.run([sys.executable, script, classpath_file(), "--out", str(tmp_path)], check=True, timeout=240)
    checked_in = {path.name: path.read_text() for path in (ROOT / "src/highwater/wire/messages").glob("*.py")}
    assert {path.name: path.read_text() for path in tmp_path.glob("*.py")} == checked_in


def test_kafka_reads_what_we_write_and_writes_the_same_bytes_in_every_version() -> None:
    random = Random(1)
    samples = [
        (cls, version, specimen(cls, version, random))
        for cls, version in EVERY_VERSION
        for _ in range(max(6, 30 // (cls.VERSIONS[1] - cls.VERSIONS[0] + 1)))
    ]
    encoded = [message.encode(version) for _, version, message in samples]
    answers = ask(
        "Oracle",
        (
            f"again {cls.__name__} {version} {raw.hex()}"
            for (cls, version, _), raw in zip(samples, encoded, strict=True)
        ),
    )
    for (cls, version, message), raw, answer in zip(samples, encoded, answers, strict=True):
        assert answer == f"{raw.hex()} 0", (cls, version, message)
        assert cls.decode(raw, version) == message


def test_a_new_message_has_kafkas_defaults_in_every_version() -> None:
    answers = ask("Oracle", (f"default {cls.__name__} {version}" for cls, version in EVERY_VERSION))
    for (cls, version), answer in zip(EVERY_VERSION, answers, strict=True):
        assert answer == f"{cls().encode(version).hex()} 0", (cls, version)


def test_fields_that_a_version_lacks_are_refused_or_left_out_as_in_kafka() -> None:
    random = Random(2)
    samples = [
        (cls, version, other, specimen(cls, version, random))
        for cls, version in EVERY_VERSION
        for other in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
    ]
    answers = ask(
        "Oracle",
        (f"across {cls.__name__} {version} {it.encode(version).hex()} {other}" for cls, version, other, it in samples),
    )
    refused = 0
    for (cls, version, other, message), answer in zip(samples, answers, strict=True):
        try:
            ours = f"{message.encode(other).hex()} 0"
        except ValueError:
            ours = "unwritten"
            refused += 1
        assert ours == answer, (cls, version, other, message)
    assert refused > 500


def mangled(raw: bytes, random: Random) -> bytes:
    """A few bytes overwritten, cut out or put in: lengths, counts, tags and text go wrong."""
    data = bytearray(raw)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(data) + 1)
        kind = random.randrange(4)
        if kind == 0:
            data[at : at + 1] = bytes([random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))])
        elif kind == 1:
            del data[at : at + random.randrange(1, 4)]
        elif kind == 2:
            data[at:at] = random.randbytes(random.randrange(1, 4))
        else:
            data[at : at + 4] = random.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x0f"))
    return bytes(data)


def test_mangled_bytes_are_read_as_kafka_reads_them_or_refused_for_a_known_reason() -> None:
    random = Random(3)
    samples = [
        (cls, version, mangled(specimen(cls, version, random).encode(version), random))
        for cls, version in EVERY_VERSION
        for _ in range(12)
    ]
    answers = ask("Oracle", (f"again {cls.__name__} {version} {raw.hex()}" for cls, version, raw in samples))
    accepted = 0
    for (cls, version, raw), answer in zip(samples, answers, strict=True):
        try:
            message = cls.decode(raw, version)
        except Malformed as malformed:
            assert answer == "unread" or STRICTER.search(str(malformed)), (cls, version, raw, malformed)
            continue
        accepted += 1
        assert answer != "unread", (cls, version, raw)
        if answer != "unwritten":  # Kafka writes no unknown tags that it read out of order; we sort them
            assert answer.split(" ")[0] == message.encode(version).hex(), (cls, version, raw)
    assert accepted > 1000
