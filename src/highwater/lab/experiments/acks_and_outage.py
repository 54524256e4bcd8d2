"""acks 0, 1 and all; min.insync.replicas; and one outage with both choices of unclean election."""

from __future__ import annotations

from highwater.lab.bench import Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words

KEPT = "kept-by-all"
ALONE = "written-while-alone"
NEW = "written-afterwards"


MISTAKE = Words(
    "A text counts with 3 replicas, acks=all and min.insync.replicas=2: one broker may fail. That is right for "
    "writing. Reading goes on with one replica alone. And texts say that the ISR guarantees acks=all: it guarantees "
    "what the ISR is at that moment, and the ISR may be the leader alone unless min.insync.replicas says otherwise. "
    "The default is 1.",
    "글에서는 복제본 3개, acks=all, min.insync.replicas=2라면 한 대의 장애만 허용된다고 한다. 쓰기에 대해서는 맞지만, 읽기는 "
    "복제본이 하나만 남아도 계속된다. 또 ISR 덕분에 acks=all이 유실을 막는다고 하지만, 보장은 그 순간의 ISR까지다. "
    "min.insync.replicas를 정하지 않으면 ISR은 리더 하나일 수도 있다. 기본값은 1이다.",
)
THREE_KINDS_OF_ACKNOWLEDGEMENT = Scene(
    Words("three kinds of acknowledgement", "세 가지 acks"),
    Words(
        "min.insync.replicas is 2. With acks=0 the leader answers nothing: the producer does not even learn the offset. "
        "With acks=1 it answers offset {one} after its own write. With acks=all it answers offset {all} when the whole "
        "ISR has the record.",
        "min.insync.replicas는 2다. acks=0이면 리더는 응답하지 않으므로 프로듀서는 오프셋조차 모른다. acks=1이면 리더가 자기 "
        "로그에 쓴 뒤 오프셋 {one}번을 알려 준다. acks=all이면 ISR 전체가 레코드를 가진 뒤에 오프셋 {all}번을 알려 준다.",
    ),
)
TWO_BROKERS_DIE = Scene(
    Words("two brokers die", "브로커 두 대가 죽는다"),
    Words(
        "Nodes 2 and 3 are killed, and the ISR is node 1 alone. acks=all is refused with {error}: fewer than "
        "min.insync.replicas would have it. acks=1 is still taken, at offset {risky}; but the high watermark stays at "
        "{hw}, so no consumer reads it until a second replica has it.",
        "노드 2와 3을 강제로 종료해 ISR에 노드 1만 남았다. acks=all은 {error} 오류로 거부된다. min.insync.replicas보다 적은 "
        "복제본만 레코드를 갖게 되기 때문이다. acks=1은 여전히 받아들여져 오프셋 {risky}에 기록된다. 그러나 하이 워터마크가 "
        "{hw}에 머물러, 두 번째 복제본이 받기 전까지 컨슈머는 읽지 못한다.",
    ),
)
AN_OUTAGE_BEGINS = Scene(
    Words("an outage begins, with min.insync.replicas=1", "장애의 시작: min.insync.replicas=1"),
    Words(
        "Two topics with the default min.insync.replicas=1. Nodes 2 and 3 are dead, the ISR is node 1 alone, and each "
        "topic takes one more record, acknowledged with acks=all. The picture shows one of them; the other is the same.",
        "기본값 min.insync.replicas=1인 토픽이 두 개 있다. 노드 2와 3이 죽어 ISR에는 노드 1만 있고, 두 토픽 모두 acks=all로 "
        "확인된 레코드를 하나씩 더 받았다. 그림은 그중 하나이며 다른 하나도 같다.",
    ),
)
UNCLEAN_OFF = Scene(
    Words("unclean election off: no leader", "unclean 선출을 끈 토픽: 리더가 없다"),
    Words(
        "Node 1 is killed, and nodes 2 and 3 return. They were not in the ISR. The topic with "
        "unclean.leader.election.enable=false has no leader: a write fails with {error}. It waits for node 1.",
        "노드 1을 강제로 종료하고 노드 2와 3이 돌아온다. 둘은 ISR에 없었다. unclean.leader.election.enable=false인 토픽에는 "
        "리더가 없고, 쓰기는 {error} 오류로 실패한다. 노드 1이 돌아오기를 기다린다.",
    ),
)
UNCLEAN_ON = Scene(
    Words("unclean election on: a leader lacks a record", "unclean 선출을 켠 토픽: 레코드가 빠진 리더"),
    Words(
        "The other topic is led by node {leader}, which never had the last record. It takes writes at once, and puts the "
        "new record at the same offset.",
        "다른 토픽은 {leader}번 노드가 이끈다. 이 노드에는 마지막 레코드가 없었다. 곧바로 쓰기를 받으며, 새 레코드는 같은 오프셋에 "
        "들어간다.",
    ),
)
NODE_1_RETURNS = Scene(
    Words("node 1 returns", "노드 1이 돌아온다"),
    Words(
        "Node 1 is back. The safe topic has its leader and both records again. In the available topic node 1 is now a "
        "follower: it cut off its own last record, since the new leader's epoch does not know it.",
        "노드 1이 돌아왔다. 안전을 택한 토픽은 리더와 레코드 두 개를 모두 되찾았다. 가용성을 택한 토픽에서 노드 1은 이제 팔로워다. "
        "새 리더의 에포크에 없는 자신의 마지막 레코드를 잘라 냈다.",
    ),
)
LOST = Words(
    'With unclean election on: the record "{alone}", which was acknowledged with acks=all while the ISR was one '
    "broker. With it off: no record, but the topic was offline until node 1 came back. min.insync.replicas=2 would "
    "have refused that record, and so would have lost nothing that it had promised.",
    '켰을 때: "{alone}" 레코드를 잃었다. ISR이 브로커 한 대뿐일 때 acks=all로 확인된 레코드다. 껐을 때: 잃은 레코드는 없지만 '
    "노드 1이 돌아올 때까지 토픽이 오프라인이었다. min.insync.replicas=2였다면 그 레코드를 처음부터 거부했을 것이고, 약속한 "
    "것은 하나도 잃지 않았을 것이다.",
)


def script(bench: Bench) -> None:
    _acks(bench)
    _outage(bench)
    bench.mistake(MISTAKE)


def _acks(bench: Bench) -> None:
    cluster = bench.cluster
    topic = bench.topic("lab-acks", min_insync_replicas="2")
    nothing = bench.send(topic, ["a0"], acks=0)
    bench.until(topic, lambda lanes: lanes[1].log_end == 1, "the leader has the first record")
    one = bench.send(topic, ["a1"], acks=1)
    everywhere = bench.send(topic, ["aall"], acks=-1)
    bench.check((nothing, one, everywhere) == (-1, 1, 2), "the answers are: none, 1 and 2")
    bench.show(
        THREE_KINDS_OF_ACKNOWLEDGEMENT,
        topic,
        one=one,
        all=everywhere,
    )
    for node in (2, 3):
        cluster.kill(node)
        bench.wait_for_isr(topic, {1, 3} if node == 2 else {1})
    error = bench.refusal(topic, "refused", acks=-1)
    risky = bench.send(topic, ["a1-risky"], acks=1)
    seen = bench.values(topic)
    lanes = {lane.node: lane for lane in bench.lanes(topic)}
    bench.check(error == "NOT_ENOUGH_REPLICAS" and "a1-risky" not in seen, "acks=all is refused, acks=1 is not visible")
    bench.show(
        TWO_BROKERS_DIE,
        lanes=tuple(lanes.values()),
        error=error,
        risky=risky,
        hw=lanes[1].high_watermark,
    )
    cluster.restore()
    bench.wait_for_isr(topic, 3)


def _outage(bench: Bench) -> None:
    cluster = bench.cluster
    safe = bench.topic("lab-safe", unclean_leader_election_enable="false")
    available = bench.topic("lab-available", unclean_leader_election_enable="true")
    for topic in (safe, available):
        bench.send(topic, [KEPT])
        bench.until(topic, lambda lanes: all(lane.log_end == 1 for lane in lanes.values()), "all have the first record")
    for node in (2, 3):
        cluster.kill(node)
        bench.wait_for_isr(safe, {1, 3} if node == 2 else {1})
    for topic in (safe, available):
        bench.wait_for_isr(topic, {1})
        bench.send(topic, [ALONE])
    bench.show(
        AN_OUTAGE_BEGINS,
        available,
    )
    bench.lanes(safe)  # a dead node is shown as it was seen last
    cluster.kill(1)
    cluster.start(2, 3)
    leader = cluster.wait_for_leader(available, 0, other_than=1)
    bench.check(cluster.leader(safe, 0) is None, "without unclean election there is no leader")
    error = bench.refusal(safe, "refused")
    bench.send(available, [NEW])
    read = bench.values(available)
    bench.check(read == [KEPT, NEW], "the record that only node 1 had is not there")
    bench.show(
        UNCLEAN_OFF,
        safe,
        error=error,
    )
    bench.show(
        UNCLEAN_ON,
        available,
        leader=leader,
    )
    cluster.start(1)
    for topic in (safe, available):
        bench.wait_for_isr(topic, 3)
    kept, cost = bench.values(safe), bench.values(available)
    bench.check(kept == [KEPT, ALONE] and cost == [KEPT, NEW], "each choice has its price")
    bench.show(
        NODE_1_RETURNS,
        available,
    )
    bench.lost(
        LOST,
        alone=ALONE,
    )


EXPERIMENT = Experiment(
    "acks-and-outage",
    Words(
        "acks, min.insync.replicas, and one outage with both choices",
        "acks와 min.insync.replicas, 그리고 장애 때의 두 가지 선택",
    ),
    script,
)
