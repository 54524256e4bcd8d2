"""Our batches judged by Apache Kafka's own record classes, and theirs by ours."""

from __future__ import annotations

from random import Random

from highwater.errors import Code
from highwater.kernel import NewRecord, Record
from highwater.wire import compression, records
from highwater.wire.records import Rules
from tests.wire.java.oracle import ask
from tests.wire.record_samples import damaged, some_records

NOW = 2**40
LEVELS = {0: ("",), 1: ("", "1", "9"), 2: ("",), 3: ("", "1", "17"), 4: ("", "-5", "19")}


def text(one: Record) -> str:
    def field(value: bytes | None) -> str:
        return "-" if value is None else value.hex()

    headers = ",".join(f"{name.encode().hex()}={field(value)}" for name, value in one.headers)
    return f"{one.offset}:{one.timestamp}:{field(one.key)}:{field(one.value)}:{headers}"


def numbered(new: list[NewRecord], base_offset: int = 0) -> list[Record]:
    return [Record(base_offset + i, *fields) for i, fields in enumerate(new)]  # type: ignore[arg-type]


def test_kafka_reads_the_records_we_wrote_in_every_codec() -> None:
    random = Random(1)
    samples = [(c, level, some_records(random, size)) for c in LEVELS for level in LEVELS[c] for size in (1, 3, 900)]
    batches = [
        records.build(new, codec=codec, level=int(level) if level else None, base_offset=70, leader_epoch=4)
        for codec, level, new in samples
    ]
    answers = ask("Batches", (f"read {batch.hex()}" for batch in batches))
    for (codec, level, new), answer in zip(samples, answers, strict=True):
        assert answer == " ".join(map(text, numbered(new, 70))), (codec, level)


def test_we_read_the_records_kafka_wrote_in_every_codec_and_at_every_kind_of_level() -> None:
    random = Random(2)
    samples = [(c, level, some_records(random, size)) for c in LEVELS for level in LEVELS[c] for size in (1, 900)]
    answers = ask("Batches", (f"write {c} {level} {' '.join(map(text, numbered(new)))}" for c, level, new in samples))
    for (codec, level, new), answer in zip(samples, answers, strict=True):
        batch = bytes.fromhex(answer)
        assert records.is_intact(batch), (codec, level)
        assert records.iterate(batch) == numbered(new), (codec, level)


def test_an_uncompressed_batch_is_the_very_bytes_that_kafka_writes() -> None:
    new = some_records(Random(3), 300)
    (answer,) = ask("Batches", [f"write 0  {' '.join(map(text, numbered(new)))}"])
    assert records.build(new).hex() == answer


def test_an_append_gets_kafkas_verdict_and_leaves_kafkas_bytes() -> None:
    random = Random(4)
    cases = [append_case(random) for _ in range(3000)]
    answers = ask("Batches", (question(rules, batch) for rules, batch in cases))
    verdicts = {True: 0, False: 0}
    for (rules, batch), answer in zip(cases, answers, strict=True):
        verdicts[answer.startswith("refused")] += 1
        assert our_answer(rules, batch, answer) == answer, (rules, batch.hex())
    assert min(verdicts.values()) > 500


def test_a_topic_with_a_codec_of_its_own_gets_the_records_that_kafka_would_store() -> None:
    random = Random(5)
    cases = [(source, target, some_records(random, 50, (NOW - 9, NOW))) for source in LEVELS for target in LEVELS]
    batches = [
        records.build(new, codec=source, producer_id=3, producer_epoch=1, base_sequence=8) for source, _, new in cases
    ]
    answers = ask(
        "Batches",
        (
            f"validate false false {2**63 - 1} 1000 {target} {NOW} {batch.hex()}"
            for (_, target, _), batch in zip(cases, batches, strict=True)
        ),
    )
    for (_, target, _), batch, answer in zip(cases, batches, answers, strict=True):
        kafkas, ours = bytes.fromhex(answer), records.validate_append(batch, Rules(codec=target), NOW).data
        records.stamp(ours, 0, 100, 7)
        assert records.iterate(ours) == records.iterate(kafkas)
        sized = {"length": 0, "crc": 0}
        assert records.read_header(ours)._replace(**sized) == records.read_header(kafkas)._replace(**sized)
        assert records.is_intact(ours)


def append_case(random: Random) -> tuple[Rules, bytes]:
    """A batch, often damaged behind a right checksum, and the rules of a topic."""
    near = (NOW - 2000, NOW + 2000)
    new = some_records(random, random.choice((1, 2, 5)), near)
    batch = records.build(
        new,
        codec=random.choice((0, 0, 0, 1, 2, 3, 4)),
        log_append_time=random.choice((None, None, None, NOW - 5, -1)),
        producer_id=random.choice((-1, -1, 7)),
        base_sequence=random.choice((-1, 0, 2**31 - 1)),
        control=random.random() < 0.02,
        base_offset=0,
    )
    where = random.random()
    if where < 0.15:  # the records, or what is left of them once compressed
        batch[61:] = damaged(random, bytes(batch[61:]))
    elif where < 0.3:  # the records inside what was compressed
        codec = batch[22] & 7
        plain = damaged(random, bytes(compression.decompress(codec, batch[61:], 1 << 20)))
        batch[61:] = memoryview(compression.compress(codec, plain))
    elif where < 0.4:  # a header field
        at = random.randrange(21, 61)
        batch[at] ^= 1 << random.randrange(8)
    if random.random() > 0.03:
        records.seal(batch, 0, len(batch))
    if random.random() < 0.05:
        batch += random.choice((b"abc", bytes(batch), bytes(batch[:70]), bytes(batch[:13])))
    rules = Rules(
        compacted=random.random() < 0.2,
        log_append_time=random.random() < 0.2,
        timestamp_before_max_ms=random.choice((2**63 - 1, 1000)),
        timestamp_after_max_ms=random.choice((3_600_000, 1000)),
    )
    return rules, bytes(batch)


def question(rules: Rules, batch: bytes) -> str:
    flags = f"{rules.compacted} {rules.log_append_time}".lower()
    window = f"{rules.timestamp_before_max_ms} {rules.timestamp_after_max_ms}"
    return f"validate {flags} {window} producer {NOW} {batch.hex()}"


def our_answer(rules: Rules, batch: bytes, kafkas: str) -> str:
    try:
        valid = records.validate_append(batch, rules, NOW)
    except records.Refused as refused:
        if stricter(batch, refused, kafkas):
            return kafkas
        return f"refused {int(refused.code)} {','.join(str(error.batch_index) for error in refused.records)}"
    records.stamp(valid.data, 0, 100, 7)
    return bytes(valid.data).hex()


def stricter(batch: bytes, refused: records.Refused, kafkas: str) -> bool:
    """Whether we refuse on purpose what Kafka answers with a code that says nothing, or stores to puzzle readers."""
    if refused.code != Code.INVALID_RECORD or refused.records:
        return False
    compressed = records.read_header(batch).codec != 0
    return kafkas.startswith("refused -1") or "not consecutive" in refused.message or compressed
