"""Segments that roll, retention, and compaction: what is deleted, when, and by which settings."""

from __future__ import annotations

import time
from collections.abc import Sequence

from highwater.client.admin import Admin
from highwater.client.producer import Producer
from highwater.errors import KafkaError
from highwater.lab.bench import Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words
from highwater.model import ResourceType, TopicPartition

SEGMENT = 1 << 20
LARGE = b"x" * 400_000
WRITTEN = 6
KEPT_BYTES = 900_000
PROTECTED_MS = 3_600_000
Row = tuple[bytes | None, bytes | None]
UPDATES: tuple[Row, ...] = ((b"kim", b"v1"), (b"lee", b"v1"), (b"kim", b"v2"), (b"park", b"v1"), (b"kim", b"v3"))
FILLER: tuple[Row, ...] = ((b"filler-1", LARGE), (b"filler-2", LARGE), (b"filler-3", LARGE))
SETTINGS = (
    "cleanup.policy",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "delete.retention.ms",
)
ROLLED = Scene(
    Words("a log is a row of segments", "로그는 세그먼트의 줄이다"),
    Words(
        "{count} large records with segment.bytes={bytes} (1 GiB by default). Each file is named for its first offset. When "
        "the next record would make a segment too large, a new one begins. Only the last one, the active segment, is "
        "written.",
        "큰 레코드 {count}개를 segment.bytes={bytes}(기본값 1GiB)인 토픽에 썼다. 파일 이름은 그 세그먼트의 첫 오프셋이다. 다음 레코드를 넣으면 너무 "
        "커질 때 새 세그먼트가 시작된다. 쓰기는 마지막 세그먼트, 곧 활성 세그먼트에만 일어난다.",
    ),
)
DELETED = Scene(
    Words("retention deletes whole segments", "보존 정책은 세그먼트를 통째로 지운다"),
    Words(
        "retention.bytes is set to {kept}. The next check deletes the oldest closed segments for as long as that much is "
        "left: the log start is {start} on every replica, and a consumer begins there. Nothing inside a segment is deleted.",
        "retention.bytes를 {kept}으로 설정했다. 다음 점검 때 그만큼은 남도록 오래된 닫힌 세그먼트부터 지운다. 모든 복제본의 로그 시작이 {start}번으로 "
        "바뀌었고 컨슈머는 거기서부터 읽는다. 세그먼트의 일부만 지우는 일은 없다.",
    ),
)
COMPACTED = Scene(
    Words("compaction keeps the last record of each key", "컴팩션은 키마다 마지막 레코드만 남긴다"),
    Words(
        "A topic with cleanup.policy=compact got {before} small records, and large ones after them, so that the small ones lie "
        "in a closed segment. The cleaner left {after} of the {before}: the last one of each key, at its old offset. Offsets "
        "have gaps now, and never change.",
        "cleanup.policy=compact인 토픽에 작은 레코드 {before}개를 쓰고, 그것들이 닫힌 세그먼트에 들어가도록 큰 레코드를 이어서 썼다. 클리너는 "
        "{before}개 가운데 키마다 마지막인 {after}개를 원래 오프셋 그대로 남겼다. 오프셋에 빈 곳이 생기지만 번호는 바뀌지 않는다.",
    ),
)
REFUSED = Scene(
    Words("a record without a key is refused", "키 없는 레코드는 거부된다"),
    Words(
        "A record without a key could never be replaced, so a compacted topic refuses it: {error}.",
        "키 없는 레코드는 결코 대체될 수 없으므로 컴팩션 토픽은 거부한다: {error}.",
    ),
)
FIVE = Scene(
    Words("five settings of compaction", "컴팩션의 다섯 가지 설정"),
    Words(
        "cleanup.policy switches compaction on. The cleaner begins when min.cleanable.dirty.ratio of the log is new (0.5 by default, 0 here), or when a "
        "record has waited for max.compaction.lag.ms. min.compaction.lag.ms protects new records: another topic got the same "
        "{before} records first, with {lag} ms, and all {kept} were still there. With 0 ms the cleaner left {after}. delete.retention.ms is for a record without a value, "
        "which deletes its key: how long consumers can still see that.",
        "cleanup.policy로 컴팩션을 켠다. 클리너는 로그에서 새로 쓴 부분의 비율이 min.cleanable.dirty.ratio(기본값 0.5, 여기서는 0)에 이르거나, 기다린 시간이 max.compaction.lag.ms에 이른 "
        "레코드가 있으면 시작한다. min.compaction.lag.ms는 새 레코드를 보호한다. 이 값이 {lag}ms인 다른 토픽에 같은 레코드 {before}개를 먼저 썼는데, {kept}개가 모두 남아 "
        "있었다. 0ms로 바꾸자 클리너는 {after}개를 남겼다. delete.retention.ms는 키를 지우는 레코드(값이 없는 레코드)를 컨슈머가 얼마 동안 더 볼 수 있는지 정한다.",
    ),
)
LOST = Words(
    "What the settings say: {deleted} records by retention, and {replaced} values that a later one of the same key had "
    "replaced. Acknowledged does not mean kept for ever.",
    "설정한 대로 사라졌다. 보존 정책으로 레코드 {deleted}개, 그리고 같은 키의 나중 값으로 대체된 레코드 {replaced}개다. 확인되었다고 영원히 남는 "
    "것은 아니다.",
)
MISTAKE = Words(
    "A text gives 5 minutes as the default of retention.ms. That is log.retention.check.interval.ms, how often old segments "
    "are looked for; retention.ms is {ms} ms here, 7 days. The topic's names of the cleaner's settings have no log.cleaner "
    "before them: min.cleanable.dirty.ratio, min.compaction.lag.ms. And compaction is not compression: it deletes records.",
    "글에서는 retention.ms의 기본값이 5분이라고 한다. 5분은 오래된 세그먼트를 점검하는 주기인 log.retention.check.interval.ms이다. retention.ms는 "
    "여기서도 {ms}ms, 곧 7일이다. 클리너 설정의 토픽 수준 이름에는 log.cleaner가 붙지 않는다(min.cleanable.dirty.ratio, min.compaction.lag.ms). "
    "또 컴팩션은 압축(compression)이 아니라 레코드를 지우는 것이다.",
)


def script(bench: Bench) -> None:
    protected = bench.topic(
        "lab-protected",
        cleanup_policy="compact",
        segment_bytes=str(SEGMENT),
        min_cleanable_dirty_ratio="0",
        min_compaction_lag_ms=str(PROTECTED_MS),
    )
    _send(bench, protected, [*UPDATES, *FILLER])
    deleted = _retention(bench)
    replaced, ms = _compaction(bench, protected)
    bench.lost(LOST, deleted=deleted, replaced=replaced)
    bench.mistake(MISTAKE, ms=ms)


def _retention(bench: Bench) -> int:
    cluster = bench.cluster
    topic = bench.topic("lab-segments", segment_bytes=str(SEGMENT))
    _send(bench, topic, [(None, LARGE)] * WRITTEN)
    bench.until(topic, lambda lanes: all(lane.high_watermark == WRITTEN for lane in lanes.values()), "all have all")
    folder = cluster.log_dir(1) / f"{topic}-0"
    files = "\n".join(f"{path.name}  {path.stat().st_size}" for path in sorted(folder.glob("*.log")))
    bench.check(len(files.splitlines()) == 3, f"there are three segments: {files}")
    bench.show(ROLLED, topic, files=((f"{topic}-0/", files),), count=WRITTEN, bytes=SEGMENT)
    with cluster.client() as client:
        Admin(client).alter_configs(ResourceType.TOPIC, topic, put={"retention.bytes": str(KEPT_BYTES)})
    lanes = bench.until(
        topic, lambda lanes: all(lane.log_start == 2 for lane in lanes.values()), "a segment is deleted"
    )
    first = cluster.records(topic)[0].offset
    bench.check(first == 2, "a consumer begins at the log start")
    bench.show(DELETED, lanes=tuple(lanes.values()), kept=KEPT_BYTES, start=first)
    return first


def _compaction(bench: Bench, protected: str) -> tuple[int, str]:
    cluster = bench.cluster
    topic = bench.topic(
        "lab-compact", cleanup_policy="compact", segment_bytes=str(SEGMENT), min_cleanable_dirty_ratio="0"
    )
    _send(bench, topic, [*UPDATES, *FILLER])
    kept: list[str] = []

    def is_compacted() -> bool:
        kept[:] = _updates(bench, topic)
        return len(kept) == 3

    cluster.wait_until(is_compacted, what="the cleaner has left the last record of each key")
    before = "\n".join(
        f"{at}  {(key or b'').decode()}  {(value or b'').decode()}" for at, (key, value) in enumerate(UPDATES)
    )
    bench.check(kept == ["1  lee  v1", "3  park  v1", "4  kim  v3"], f"the last of each key: {kept}")
    bench.show(
        COMPACTED,
        files=(("offset  key  value", before), ("→", "\n".join(kept))),
        before=len(UPDATES),
        after=len(kept),
    )
    try:
        _send(bench, topic, [(None, b"v")])
        error = ""
    except KafkaError as refused:
        error = refused.code.name
    bench.check(error == "INVALID_RECORD", f"a record without a key is refused; the answer was {error or 'none'}")
    bench.show(REFUSED, error=error)
    values = _five_settings(bench, topic, protected)
    return len(UPDATES) - len(kept), str(values["retention.ms"])


def _updates(bench: Bench, topic: str) -> list[str]:
    """What is left of the small records: offset, key and value."""
    return [
        f"{record.offset}  {(record.key or b'').decode()}  {(record.value or b'').decode()}"
        for record in bench.cluster.records(topic)
        if record.offset < len(UPDATES)
    ]


def _five_settings(bench: Bench, topic: str, protected: str) -> dict[str, str | None]:
    """Returns all settings of the compacted topic."""
    kept = _updates(bench, protected)
    bench.check(len(kept) == len(UPDATES), f"new records are protected: {kept}")
    with bench.cluster.client() as client:
        admin = Admin(client)
        found = admin.describe_configs(ResourceType.TOPIC, [topic])[topic]
        admin.alter_configs(ResourceType.TOPIC, protected, put={"min.compaction.lag.ms": "0"})
    values = {each.name: each.value for each in found}
    last = _updates(bench, topic)
    bench.cluster.wait_until(lambda: _updates(bench, protected) == last, what="the cleaner has cleaned the other topic")
    shown = "\n".join(f"{name}={values[name]}" for name in SETTINGS)
    bench.show(FIVE, files=((topic, shown),), before=len(UPDATES), kept=len(kept), lag=PROTECTED_MS, after=len(last))
    return values


def _send(bench: Bench, topic: str, rows: Sequence[Row]) -> None:
    with bench.cluster.client() as client:
        producer = Producer(client)
        for key, value in rows:
            producer.send(TopicPartition(topic, 0), [(time.time_ns() // 1_000_000, key, value, ())])


EXPERIMENT = Experiment(
    "segments-and-compaction",
    Words("Segments, retention and compaction", "세그먼트, 보존, 컴팩션"),
    script,
)
