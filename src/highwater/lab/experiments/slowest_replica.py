"""The slowest member of the ISR holds the high watermark until it leaves; it returns when it has caught up."""

from __future__ import annotations

import time

from highwater.lab.bench import CONFIG, Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words
from highwater.lab.old_rules import read_to_the_end

BEFORE = 3
MORE = 4


HELD = Scene(
    Words("the slowest member holds the high watermark", "가장 느린 구성원이 하이 워터마크를 붙잡는다"),
    Words(
        "The link between nodes 1 and 3 is cut, and {more} records are written with acks=1. Node 2 has them; node 3 does "
        "not, and it is still in the ISR. So the high watermark stays at {hw}, and a consumer reads {consumed} records, "
        "though the producer has {more} more acknowledgements. The last lane is what a consumer would read without a "
        "high watermark: records that a new leader might not have.",
        "노드 1과 3 사이의 연결을 끊고 acks=1로 레코드 {more}개를 쓴다. 노드 2는 받았지만 노드 3은 받지 못했고 아직 ISR에 "
        "있다. 그래서 하이 워터마크는 {hw}에 머문다. 프로듀서는 {more}개를 더 확인받았지만 컨슈머는 {consumed}개만 읽는다. "
        "마지막 줄은 하이 워터마크가 없다면 컨슈머가 읽게 될 레코드다. 새 리더에는 없을지도 모르는 레코드들이다.",
    ),
)
IT_LEAVES = Scene(
    Words("it leaves the ISR, and the high watermark moves", "ISR에서 빠지자 하이 워터마크가 움직인다"),
    Words(
        "{waited} s after the cut the leader has asked the controller to take node 3 out of the ISR: it had not caught up "
        "for replica.lag.time.max.ms, here {limit} s. Now nodes 1 and 2 decide alone: the high watermark is {hw}.",
        "연결을 끊고 {waited}초 뒤, 리더의 요청으로 컨트롤러가 노드 3을 ISR에서 뺐다. replica.lag.time.max.ms(여기서는 "
        "{limit}초) 동안 따라잡지 못했기 때문이다. 이제 노드 1과 2만으로 결정하므로 하이 워터마크는 {hw}이다.",
    ),
)
IT_CATCHES_UP_AND_RETURNS = Scene(
    Words("it catches up and returns", "따라잡고 돌아온다"),
    Words(
        "The link is healed. Node 3 fetches what it missed, reaches the high watermark, and the leader asks the "
        "controller to take it back. Nobody had to do anything.",
        "연결을 복구한다. 노드 3은 놓친 레코드를 가져와 하이 워터마크에 도달하고, 리더의 요청으로 다시 ISR에 들어간다. 사람이 할 "
        "일은 없다.",
    ),
)
LOST = Words(
    "Nothing. The price of a slow member is time: for {waited} s no new record could be read, and writes with "
    "acks=all would have waited as long.",
    "아무것도 잃지 않았다. 느린 구성원의 대가는 시간이다. {waited}초 동안 새 레코드를 읽을 수 없었고, acks=all 쓰기였다면 그만큼 "
    "기다렸을 것이다.",
)
MISTAKE = Words(
    "Texts say that a follower must fetch within replica.lag.time.max.ms. Fetching is not enough: it must have "
    "caught up with the log end within that time (the default is 30 s). And the ISR is not kept in ZooKeeper: the "
    "leader asks the controller with AlterPartition, and the change is a record in the metadata log.",
    "글에서는 replica.lag.time.max.ms 안에 페치하면 된다고 하지만, 페치만으로는 부족하다. 그 시간 안에 로그 끝까지 따라잡은 "
    "적이 있어야 한다(기본값 30초). 또 ISR은 주키퍼에 저장되지 않는다. 리더가 AlterPartition으로 컨트롤러에 요청하고, 변경은 "
    "메타데이터 로그의 레코드가 된다.",
)


def script(bench: Bench) -> None:
    cluster = bench.cluster
    limit = int(CONFIG["replica.lag.time.max.ms"]) / 1000
    topic = bench.topic("lab-slowest")
    bench.send(topic, [f"m{number}" for number in range(BEFORE)])
    bench.until(topic, lambda lanes: all(lane.high_watermark == BEFORE for lane in lanes.values()), "all have three")

    cut_at = time.monotonic()
    cluster.cut(1, 3)
    bench.send(topic, [f"n{number}" for number in range(MORE)], acks=1)
    lanes = bench.until(topic, lambda lanes: lanes[2].log_end == BEFORE + MORE, "node 2 has everything")
    bench.check(lanes[1].high_watermark == BEFORE and lanes[3].log_end == BEFORE, "node 3 holds the high watermark")
    bench.check(all(lane.in_isr for lane in lanes.values()), "all are in the ISR still")
    consumed = len(bench.values(topic))
    bench.check(consumed == BEFORE, "a consumer reads only what is committed")
    bench.show(
        HELD,
        lanes=(*lanes.values(), read_to_the_end(lanes[1])),
        more=MORE,
        hw=lanes[1].high_watermark,
        consumed=consumed,
    )

    bench.wait_for_isr(topic, {1, 2})
    waited = round(time.monotonic() - cut_at, 1)
    lanes = bench.until(topic, lambda lanes: lanes[1].high_watermark == BEFORE + MORE, "the high watermark moves")
    consumed = len(bench.values(topic))
    bench.check(consumed == BEFORE + MORE and waited >= limit / 2, "everything is committed after the time limit")
    bench.show(
        IT_LEAVES,
        lanes=tuple(lanes.values()),
        waited=waited,
        limit=f"{limit:g}",
        hw=lanes[1].high_watermark,
    )

    cluster.join(1, 3)
    bench.wait_for_isr(topic, 3)
    lanes = bench.until(
        topic,
        lambda lanes: all(lane.high_watermark == BEFORE + MORE for lane in lanes.values()),
        "node 3 has caught up, and all know it",
    )
    bench.show(
        IT_CATCHES_UP_AND_RETURNS,
        lanes=tuple(lanes.values()),
    )
    bench.lost(
        LOST,
        waited=waited,
    )
    bench.mistake(MISTAKE)


EXPERIMENT = Experiment(
    "slowest-replica",
    Words(
        "The slowest member of the ISR holds the high watermark", "ISR에서 가장 느린 구성원이 하이 워터마크를 붙잡는다"
    ),
    script,
)
