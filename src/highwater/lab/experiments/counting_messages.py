"""Why counting messages was a bad rule for lag: a burst puts a healthy follower out."""

from __future__ import annotations

import time

from highwater.lab.bench import Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words
from highwater.lab.old_rules import GONE, Sample, first_out_by_count

BURST = 500
OLD_LIMIT = 100


A_BURST = Scene(
    Words("a burst", "갑자기 몰린 쓰기"),
    Words(
        "{burst} records arrive in one batch. Node 3's answer is a moment late, as on any busy network: it is "
        "{lag} records behind, and in the ISR.",
        "레코드 {burst}개가 한 배치로 들어온다. 바쁜 네트워크라면 흔히 그렇듯 노드 3에게 가는 응답이 잠깐 늦는다. 레코드 {lag}개만큼 "
        "뒤처졌지만 ISR에 있다.",
    ),
)
TWO_RULES_ONE_TRACE = Scene(
    Words("two rules, one trace", "같은 관측, 두 가지 규칙"),
    Words(
        "After {seconds} s node 3 has everything. By time it never left the ISR: it was late for less than "
        "replica.lag.time.max.ms. The old rule, replica.lag.max.messages={limit}, would have put it out at {out} s and "
        "taken it back a moment later. Computed: this rule no longer exists.",
        "{seconds}초 뒤 노드 3은 모든 레코드를 가졌다. 시간 기준으로는 ISR에서 빠진 적이 없다. 늦은 시간이 "
        "replica.lag.time.max.ms보다 짧았기 때문이다. 옛 규칙 replica.lag.max.messages={limit}이라면 {out}초에 빠졌다가 곧 "
        "돌아왔을 것이다. 계산한 값이며, 이 규칙은 지금은 없다.",
    ),
)
LOST = Words(
    "Nothing. With the old rule each burst would have shrunk and grown the ISR: metadata changes, alarms, and writes "
    "refused where min.insync.replicas needs the member that had just left.",
    "아무것도 잃지 않았다. 옛 규칙이었다면 쓰기가 몰릴 때마다 ISR이 줄었다 늘었다 하면서 메타데이터가 바뀌고 경보가 울리며, "
    "min.insync.replicas를 채우지 못해 쓰기가 거부되기도 했을 것이다.",
)
MISTAKE = Words(
    "One text defines the ISR by replica.lag.max.messages and the high watermark by it. Kafka removed the setting in "
    "0.9 (KIP-16), as the same text says further down. Only replica.lag.time.max.ms is left, and the high watermark "
    "was never defined by a number of messages.",
    "한 글은 ISR과 하이 워터마크를 replica.lag.max.messages로 정의한다. 같은 글의 뒷부분에도 나오듯 카프카는 0.9에서 이 설정을 "
    "없앴다(KIP-16). 남은 것은 replica.lag.time.max.ms뿐이며, 하이 워터마크가 메시지 개수로 정의된 적은 없다.",
)


def script(bench: Bench) -> None:
    topic = bench.topic("lab-counting")
    bench.send(topic, ["m0"])
    bench.until(topic, lambda lanes: all(lane.high_watermark == 1 for lane in lanes.values()), "all have the first")
    trace = _burst(bench, topic)
    _judge(bench, topic, trace)
    bench.lost(LOST)
    bench.mistake(MISTAKE)


def _burst(bench: Bench, topic: str) -> list[Sample]:
    """A burst that node 3 gets a moment later than node 2: the log ends before, amid and after it."""
    cluster = bench.cluster
    begun = time.monotonic()
    trace: list[Sample] = []

    def sample() -> None:
        lanes = {lane.node: lane for lane in bench.lanes(topic)}
        trace.append(Sample(round(time.monotonic() - begun, 3), lanes[1].log_end, lanes[3].log_end))

    sample()
    cluster.cut(1, 3, one_way=True)
    bench.send_batch(topic, BURST)
    lanes = bench.until(topic, lambda lanes: lanes[2].log_end == BURST + 1, "node 2 has the burst")
    sample()
    bench.check(all(lane.in_isr for lane in lanes.values()), "nobody has left the ISR")
    bench.show(
        A_BURST,
        lanes=tuple(lanes.values()),
        burst=BURST,
        lag=lanes[1].log_end - lanes[3].log_end,
    )
    cluster.join(1, 3, one_way=True)
    bench.until(topic, lambda lanes: lanes[3].log_end == BURST + 1, "node 3 has the burst")
    sample()
    return trace


def _judge(bench: Bench, topic: str, trace: list[Sample]) -> None:
    """The rule of today as the leader went by it, and the old one computed over the same trace."""
    lanes = bench.until(topic, lambda lanes: lanes[1].high_watermark == BURST + 1, "the burst is committed")
    out = first_out_by_count(trace, OLD_LIMIT)
    bench.check(out is not None, "the old rule would have put it out")
    assert out is not None
    changes = bench.cluster.replica(1, topic, 0)
    shrunk = [
        each["what"] for each in (changes or {}).get("changes", ()) if "ISR" in each["what"] and "out" in each["what"]
    ]
    bench.check(all(lane.in_isr for lane in lanes.values()) and not shrunk, "nobody left the ISR")
    computed = "\n".join(
        f"{each.seconds:7.3f} s   {each.leader_end:5d} - {each.follower_end:5d} = {each.leader_end - each.follower_end:5d}"
        f"   {'> ' + str(OLD_LIMIT) + ': out' if each.leader_end - each.follower_end > OLD_LIMIT else 'in'}"
        for each in trace
    )
    seconds = trace[-1].seconds
    bench.show(
        TWO_RULES_ONE_TRACE,
        lanes=tuple(lanes.values()),
        files=((Words(f"┄┄ {GONE.en}", f"┄┄ {GONE.ko}"), f"replica.lag.max.messages={OLD_LIMIT}\n{computed}"),),
        seconds=seconds,
        limit=OLD_LIMIT,
        out=out.seconds,
    )


EXPERIMENT = Experiment(
    "counting-messages",
    Words("Why counting messages was a bad rule for lag", "메시지 개수로 지연을 판단하면 왜 안 되는가"),
    script,
)
