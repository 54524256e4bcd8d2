"""The files beside the lanes: replication-offset-checkpoint and leader-epoch-checkpoint, and the tools on them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from highwater.lab.bench import Bench, NotSeen
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words

RECORDS = 3
TOOL_SECONDS = 60.0
HIGH_WATERMARKS = "replication-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
FILES = Scene(
    Words("what a follower keeps on disk", "팔로워가 디스크에 남기는 것"),
    Words(
        "{count} records, a killed leader, and one record more. Below are two files of node {node}. {watermarks} has a line "
        "for each partition: name, number, high watermark; here {hw}. It is written every "
        "replica.high.watermark.checkpoint.interval.ms (5 s by default), so it is late after a crash, and that does no harm. "
        "{epochs} has a line for each leader epoch: its number, and its first offset. It agrees with e0 and e1 in the lanes.",
        "레코드 {count}개를 쓴 뒤 리더를 강제로 종료하고 하나를 더 썼다. 아래는 노드 {node}의 두 파일이다. {watermarks}에는 파티션마다 이름, "
        "번호, 하이 워터마크(여기서는 {hw})가 한 줄씩 있다. replica.high.watermark.checkpoint.interval.ms(기본 5초)마다 쓰므로 장애 "
        "뒤에는 늦은 값일 수 있지만 문제가 되지 않는다. {epochs}에는 리더 에포크마다 번호와 첫 오프셋이 한 줄씩 있으며, 그림의 e0, e1과 "
        "일치한다.",
    ),
)
TOOLS = Scene(
    Words("the same, by Kafka's tools", "카프카 도구로 본 같은 내용"),
    Words(
        "`highwater topics --describe` shows leader, replicas and ISR; `highwater dump-log` prints the batches of the "
        "segment, each with the leader epoch in which it was written. kafka-topics.sh and kafka-dump-log.sh print the same. "
        "Below are some of their fields, of the same {count} records.",
        "`highwater topics --describe`는 리더, 복제본, ISR을 보여 준다. `highwater dump-log`는 세그먼트의 배치를 출력하며, 배치마다 기록될 때의 "
        "리더 에포크가 있다. kafka-topics.sh와 kafka-dump-log.sh도 같은 내용을 출력한다. 아래는 같은 레코드 {count}개에 대한 출력의 일부 필드다.",
    ),
)
LOST = Words(
    "Nothing. Both files are small helpers: records lie in the segments, and committed is what the ISR has.",
    "아무것도 잃지 않았다. 두 파일은 작은 보조 기록이다. 레코드는 세그먼트에 있고, 무엇이 커밋되었는지는 ISR이 정한다.",
)
MISTAKE = Words(
    "A text has a broker cut its log to replication-offset-checkpoint when it recovers. It does not: leader epochs decide "
    "what is cut off. And the number in that file is a high watermark, one more than the last committed offset. Another text "
    "names the flag --print-data-log of the dump tool, which is right; /data/kafka-logs is just what log.dirs says.",
    "글에서는 브로커가 복구할 때 replication-offset-checkpoint까지 로그를 자른다고 하지만 그렇지 않다. 무엇을 자를지는 리더 에포크로 정한다. "
    "또 파일의 숫자는 하이 워터마크로, 마지막 커밋 오프셋보다 1 크다. 다른 글에 나오는 dump 도구의 --print-data-log는 맞고, "
    "/data/kafka-logs는 log.dirs에 적힌 경로일 뿐이다.",
)


def script(bench: Bench) -> None:
    cluster = bench.cluster
    topic = bench.topic("lab-files")
    bench.send(topic, [f"m{number}" for number in range(RECORDS)])
    cluster.kill(1)
    leader = cluster.wait_for_leader(topic, 0, other_than=1)
    bench.send(topic, ["after"])
    cluster.start(1)
    bench.wait_for_isr(topic, 3)
    end = RECORDS + 1
    lanes = bench.until(topic, lambda lanes: all(lane.high_watermark == end for lane in lanes.values()), "all know it")
    line = f"{topic} 0 {end}"
    watermarks, epochs = cluster.log_dir(1) / HIGH_WATERMARKS, cluster.log_dir(1) / f"{topic}-0" / EPOCHS
    cluster.wait_until(lambda: line in _lines(watermarks), what=f"{HIGH_WATERMARKS} has {line}")
    kept = _lines(epochs)
    bench.check(kept[2:] == [f"{epoch} {start}" for epoch, start in lanes[1].epochs], "the file has the lanes' epochs")
    bench.show(
        FILES,
        lanes=tuple(lanes.values()),
        files=((f"{HIGH_WATERMARKS} (…)", line), (f"{topic}-0/{EPOCHS}", "\n".join(kept))),
        count=RECORDS,
        node=1,
        watermarks=HIGH_WATERMARKS,
        epochs=EPOCHS,
        hw=end,
    )
    described = _tool("topics", "--bootstrap-server", cluster.bootstrap_servers, "--describe", "--topic", topic)
    segment = cluster.log_dir(leader) / f"{topic}-0" / "00000000000000000000.log"
    dumped = _tool("dump-log", "--files", str(segment))
    bench.check(f"Leader: {leader}" in described, "the tool names the same leader")
    batches = [_short(row) for row in dumped.splitlines() if row.startswith("baseOffset:")]
    bench.check(len(batches) == end, "the segment has a batch for each write")
    bench.show(
        TOOLS,
        count=end,
        files=(
            ("highwater topics --describe", _shortened(described)),
            ("highwater dump-log --files 00000000000000000000.log", "\n".join(batches)),
        ),
    )
    bench.lost(LOST)
    bench.mistake(MISTAKE)


def _lines(file: Path) -> list[str]:
    """A file is replaced as a whole; before its first writing it is not there."""
    try:
        return file.read_text().splitlines()
    except FileNotFoundError:
        return []


def _tool(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "highwater", *words], capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    if done.returncode:
        raise NotSeen(f"highwater {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _shortened(described: str) -> str:
    """The fields that the experiment is about: rows have tabs between fields."""
    fields = [field.strip() for row in described.splitlines() for field in row.split("\t")]
    shown = ("Partition:", "Leader:", "Replicas:", "Isr:")
    return "  ".join(field for field in fields if field.startswith(shown))


def _short(row: str) -> str:
    """The fields of a batch that the experiment is about."""
    words = row.split()
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    return "  ".join(f"{name} {pairs[name]}" for name in ("baseOffset:", "count:", "partitionLeaderEpoch:"))


EXPERIMENT = Experiment(
    "checkpoint-files",
    Words("The checkpoint files beside the lanes, and the tools", "그림과 나란히 보는 체크포인트 파일과 도구"),
    script,
)
