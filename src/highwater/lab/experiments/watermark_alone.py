"""Why the high watermark alone loses data, and the leader epoch does not: one schedule, on the real cluster by the rule
of today, and in the simulated world by the old one."""

from __future__ import annotations

from concurrent.futures import Future

from highwater.lab.bench import HELD_SECONDS, Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words
from highwater.lab.simulated import old_rule, run_schedule

RECORD = "message2"
BEHIND = Scene(
    Words("the follower is one fetch behind", "팔로워가 페치 한 번만큼 늦다"),
    Words(
        'Two replicas, min.insync.replicas=2. The record "{record}" at offset {offset} is acknowledged: both have it, and the '
        "leader's high watermark is {hw}. Node 2 has the record, too, but not the news: its high watermark is {offset}.",
        '복제본이 두 개이고 min.insync.replicas=2다. 오프셋 {offset}의 "{record}" 레코드는 확인되었다. 둘 다 가지고 있고 리더의 하이 워터마크는 '
        "{hw}이다. 노드 2도 레코드는 가졌지만 소식은 못 들었다. 노드 2의 하이 워터마크는 {offset}이다.",
    ),
)
RESTARTED = Scene(
    Words("the follower restarts", "팔로워가 재시작한다"),
    Words(
        "Node 2 restarts while it cannot reach the leader. Today it keeps its log: end {end}. Before KIP-101 (Kafka 0.11) it "
        "cut off what was above its own high watermark, and fetched it again from the leader: the dashed lane, end {old}, is a "
        "simulated node that does so, under the same schedule.",
        "노드 2가 리더와 연결되지 않은 채 재시작한다. 지금의 규칙에서는 로그를 그대로 둔다(끝 {end}). KIP-101(카프카 0.11) 전에는 자신의 하이 "
        "워터마크 위를 잘라 내고 리더에게서 다시 가져왔다. 점선 줄은 같은 순서로 그렇게 동작하는 시뮬레이션 노드다(끝 {old}).",
    ),
)
ELECTED = Scene(
    Words("the leader dies before the follower has fetched", "팔로워가 가져오기 전에 리더가 죽는다"),
    Words(
        "Node 1 dies now, and node 2 leads with epoch {epoch}. It may: it stopped in order when too few were left in the ISR, "
        "so the controller kept it as an eligible leader replica (KIP-966). Today its log has {end} records. By the old rule it leads "
        "with {old}, and nobody can ask the dead node 1 for the missing one.",
        "이때 노드 1이 죽고 노드 2가 에포크 {epoch}의 리더가 된다. 노드 2는 정상 종료했고 ISR이 최소 수보다 적어졌으므로 컨트롤러가 적격 리더 "
        "복제본(ELR, KIP-966)으로 남겨 두었기 때문이다. 지금의 규칙에서는 레코드 {end}개가 있다. 옛 규칙에서는 {old}개만 가진 채 리더가 "
        "되고, 빠진 레코드를 죽은 노드 1에게서 가져올 수도 없다.",
    ),
)
RETURNED = Scene(
    Words("the old leader returns", "옛 리더가 돌아온다"),
    Words(
        "Node 1 returns as a follower, and asks where its last epoch ends in the leader's log: at {end}, so nothing is cut "
        "off. A consumer reads {count} records. In the simulated world node 1 has cut its log to the new leader's end {old}, and a "
        'consumer reads {left} record: "{record}" is gone from both.',
        "노드 1이 팔로워로 돌아와, 자신의 마지막 에포크가 리더 로그의 어디에서 끝나는지 묻는다. {end}번이므로 아무것도 잘리지 않는다. 컨슈머는 레코드 "
        '{count}개를 읽는다. 시뮬레이션에서는 노드 1이 새 리더의 끝인 {old}번까지 로그를 잘랐고, 컨슈머는 레코드 {left}개만 읽는다. "{record}"는 '
        "양쪽에서 모두 사라졌다.",
    ),
)
LOST = Words(
    'Nothing, today. By the old rule exactly one record: "{record}", acknowledged with acks=all. The high watermark says what '
    "is committed, but a follower learns it late; so it cannot say what may be cut off. The leader epoch can.",
    '지금의 규칙에서는 아무것도 잃지 않았다. 옛 규칙이라면 정확히 하나, acks=all로 확인된 "{record}"를 잃는다. 하이 워터마크는 무엇이 커밋되었는지를 '
    "말해 주지만 팔로워는 늦게 안다. 그래서 무엇을 잘라도 되는지는 말해 주지 못한다. 리더 에포크는 말해 준다.",
)
MISTAKE = Words(
    "The texts tell this as if Kafka worked so today, with leader epochs as a remedy for special cases. The high watermark "
    "has had no part in truncation since 0.11. The dashed lanes are simulated: the same program in a simulated world, with "
    "a follower whose rule was replaced. No node works so.",
    "글에서는 카프카가 지금도 이렇게 동작하고 리더 에포크가 특수한 경우의 보완책인 것처럼 설명한다. 0.11부터 하이 워터마크는 로그를 자르는 데 전혀 쓰이지 "
    "않는다. 점선 줄은 시뮬레이션이다. 같은 프로그램을 시뮬레이션 세계에서, 팔로워의 규칙만 바꾸어 실행했다. 실제로 그렇게 동작하는 노드는 없다.",
)


def script(bench: Bench) -> None:
    with old_rule():
        old = run_schedule("message1", RECORD)
    bench.check(old.read == ["message1"], "by the old rule exactly the second record is lost")
    cluster = bench.cluster
    topic, sent = bench.caught(lambda: _spread(bench))
    _commit_in_secret(bench, topic, sent)
    cluster.cut(1, 2)
    cluster.stop(2)
    cluster.start(2)
    lanes = bench.until(topic, lambda lanes: lanes[2].state == "up" and lanes[2].log_end > 0, "node 2 is back")
    bench.check(lanes[2].log_end == 2 and lanes[2].high_watermark == 1, "it has kept its log, and its high watermark")
    bench.show(RESTARTED, lanes=(*lanes.values(), old.restarted), end=lanes[2].log_end, old=old.restarted.log_end)

    cluster.kill(1)
    cluster.wait_for_leader(topic, 0, 2)
    lanes = bench.until(topic, lambda lanes: len(lanes[2].epochs) == 2, "node 2 leads")
    epoch = cluster.partition(topic, 0).leader_epoch
    bench.check(lanes[2].log_end == 2, "the new leader has the record")
    shown = (*lanes.values(), old.elected)
    bench.show(ELECTED, lanes=shown, epoch=epoch, end=lanes[2].log_end, old=old.elected.log_end)

    cluster.heal()
    cluster.start(1)
    bench.wait_for_isr(topic, 2)
    lanes = bench.until(topic, lambda lanes: all(lane.high_watermark == 2 for lane in lanes.values()), "both know it")
    seen = bench.values(topic)
    bench.check(seen == ["message1", RECORD], "nothing is lost")
    shown = (*lanes.values(), old.returned)
    bench.show(
        RETURNED,
        lanes=shown,
        end=lanes[1].log_end,
        count=len(seen),
        left=len(old.read),
        old=old.returned.log_end,
        record=RECORD,
    )
    bench.lost(LOST, record=RECORD)
    bench.mistake(MISTAKE)


def _spread(bench: Bench) -> tuple[str, Future[int]]:
    """The follower gets the record, and the leader does not hear of it yet."""
    topic = bench.topic("lab-alone-hw", (1, 2), min_insync_replicas="2")
    bench.send(topic, ["message1"])
    bench.until(topic, lambda lanes: all(lane.high_watermark == 1 for lane in lanes.values()), "both know of the first")
    bench.cluster.cut(2, 1, one_way=True)
    sent = bench.sending(topic, RECORD)
    bench.until(
        topic, lambda lanes: all(lane.log_end == 2 for lane in lanes.values()), "both have the record", HELD_SECONDS
    )
    return topic, sent


def _commit_in_secret(bench: Bench, topic: str, sent: Future[int]) -> None:
    """The leader's answer that the record is committed does not reach the follower."""
    cluster = bench.cluster
    cluster.cut(1, 2, one_way=True)
    cluster.join(2, 1, one_way=True)
    offset = sent.result(60)
    lanes = bench.until(topic, lambda lanes: lanes[1].high_watermark == 2, "the leader has committed it")
    bench.check(offset == 1 and lanes[2].high_watermark == 1, "the follower does not know")
    bench.show(BEHIND, lanes=tuple(lanes.values()), record=RECORD, offset=offset, hw=2)


EXPERIMENT = Experiment(
    "watermark-alone",
    Words("Why the high watermark alone loses data", "하이 워터마크만으로는 왜 데이터를 잃는가"),
    script,
)
