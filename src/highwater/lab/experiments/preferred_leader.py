"""Preferred leaders: leadership does not go back at once. An election brings it back, asked for or by itself."""

from __future__ import annotations

import time

from highwater.client.elections import Election, elect_leaders
from highwater.lab.bench import Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words
from highwater.model import TopicPartition

TOPICS = ("lab-prefer-a", "lab-prefer-b")
AUTOMATIC = {"auto_leader_rebalance_enable": "true", "leader_imbalance_check_interval_seconds": "1"}
BALANCED = Scene(
    Words("each topic has its preferred leader", "토픽마다 선호 리더가 이끈다"),
    Words(
        "Two topics. The first replica in the list of a partition is its preferred leader: {first} for one, {second} for the "
        "other. So each node leads one.",
        "토픽이 두 개 있다. 파티션의 복제본 목록에서 첫 번째가 선호(preferred) 리더다. 하나는 노드 {first}, 다른 하나는 노드 "
        "{second}이다. 그래서 두 노드가 하나씩 이끈다.",
    ),
)
MOVED = Scene(
    Words("after a restart one node leads both", "재시작하고 나면 한 노드가 둘 다 이끈다"),
    Words(
        "Node {first} was killed and started again. Its topic is led by node {leader} now, with epoch {epoch}. Node {first} "
        "is in the ISR again, and still follows: an election that is not needed costs clients a moment, so none happens at "
        "once.",
        "노드 {first}을 강제로 종료했다가 다시 시작했다. 이 노드의 토픽은 이제 에포크 {epoch}에서 {leader}번 노드가 이끈다. 노드 {first}은 다시 ISR에 "
        "있지만 팔로워로 남는다. 꼭 필요하지 않은 선출은 클라이언트를 잠깐 멈추게 하므로 바로 일어나지 않는다.",
    ),
)
BACK = Scene(
    Words("a preferred election", "선호 리더 선출"),
    Words(
        "`highwater leader-election --election-type preferred` asks for the preferred leaders. Node {first} leads again, with "
        "epoch {epoch}. The controller does the same by itself every leader.imbalance.check.interval.seconds (300), where "
        "more than leader.imbalance.per.broker.percentage (10) of a broker's leaderships are elsewhere and "
        "auto.leader.rebalance.enable is true, as it is by default.",
        "`highwater leader-election --election-type preferred`로 선호 리더를 요청한다. 노드 {first}이 에포크 {epoch}에서 다시 이끈다. "
        "auto.leader.rebalance.enable이 true(기본값)이면 컨트롤러도 leader.imbalance.check.interval.seconds(300초)마다 같은 일을 한다. 한 "
        "브로커가 맡아야 할 리더의 leader.imbalance.per.broker.percentage(10%)를 넘게 다른 곳에 있을 때다.",
    ),
)
BY_ITSELF = Scene(
    Words("and by itself", "그리고 저절로"),
    Words(
        "A second cluster, with automatic rebalance and a look every {interval} s instead of every 300 s. Node {first} was killed "
        "there and started again, and nobody asked for an election. {seconds} s after it was in the ISR again the controller "
        "made it the leader: epoch {before} → {after}.",
        "두 번째 클러스터에서는 자동 재분배를 켜고 300초 대신 {interval}초마다 살펴보게 했다. 노드 {first}을 강제로 종료했다가 다시 시작했고, 아무도 선출을 "
        "요청하지 않았다. ISR에 돌아온 지 {seconds}초 뒤에 컨트롤러가 이 노드를 다시 리더로 만들었다(에포크 {before} → {after}).",
    ),
)
LOST = Words(
    "Nothing. A change of leader between two members of the ISR is clean: the new one has every committed record.",
    "아무것도 잃지 않았다. ISR 구성원 사이의 리더 교체는 깨끗하다. 새 리더는 커밋된 레코드를 모두 가지고 있다.",
)
MISTAKE = Words(
    "A text speaks of leaders that are spread by load. Kafka counts leaderships, not load: it only brings back the preferred "
    "leaders, and where these lie is decided when a topic is made. The text's names of two settings are misspelt: they are "
    "leader.imbalance.check.interval.seconds and leader.imbalance.per.broker.percentage.",
    "글에서는 부하에 따라 리더를 분산한다고 하지만, 카프카가 세는 것은 부하가 아니라 리더의 수다. 선호 리더를 되돌릴 뿐이며, 선호 리더의 위치는 "
    "토픽을 만들 때 정해진다. 또 글의 설정 이름 두 개에 오타가 있다. 올바른 이름은 leader.imbalance.check.interval.seconds와 "
    "leader.imbalance.per.broker.percentage이다.",
)


def script(bench: Bench) -> None:
    cluster = bench.cluster
    one = bench.topic(TOPICS[0], (1, 2, 3))
    other = bench.topic(TOPICS[1], (2, 1, 3))
    for topic in (one, other):
        bench.send(topic, ["m0", "m1"])
    bench.check((cluster.leader(one, 0), cluster.leader(other, 0)) == (1, 2), "each has its preferred leader")
    bench.show(BALANCED, one, first=1, second=2)
    cluster.kill(1)
    leader = cluster.wait_for_leader(one, 0, other_than=1)
    epoch = cluster.partition(one, 0).leader_epoch
    cluster.start(1)
    bench.wait_for_isr(one, 3)
    bench.check(cluster.leader(one, 0) == leader == 2, "node 2 leads both")
    bench.show(MOVED, one, first=1, leader=leader, epoch=epoch)
    with cluster.client() as client:
        results = elect_leaders(client, Election.PREFERRED, [TopicPartition(one, 0)])
    bench.check(list(results.values()) == [None], "the election was granted")
    cluster.wait_for_leader(one, 0, 1)
    bench.wait_for_isr(one, 3)
    after = cluster.partition(one, 0).leader_epoch
    bench.check(after == epoch + 1 and bench.values(one) == ["m0", "m1"], "each election is an epoch")
    bench.show(BACK, one, first=1, epoch=after)
    with bench.beside(**AUTOMATIC) as other_bench:
        _rebalance(other_bench)
    bench.lost(LOST)
    bench.mistake(MISTAKE)


def _rebalance(bench: Bench) -> None:
    """Nobody asks for an election."""
    cluster = bench.cluster
    topic = bench.topic(TOPICS[0], (1, 2, 3))
    bench.send(topic, ["m0", "m1"])
    cluster.kill(1)
    cluster.wait_for_leader(topic, 0, other_than=1)
    before = cluster.partition(topic, 0).leader_epoch
    cluster.start(1)
    cluster.wait_until(lambda: 1 in cluster.isr(topic, 0), what="node 1 is in the ISR again")
    begun = time.monotonic()
    cluster.wait_for_leader(topic, 0, 1)
    seconds = round(time.monotonic() - begun, 1)
    bench.wait_for_isr(topic, 3)
    after = cluster.partition(topic, 0).leader_epoch
    bench.check(after == before + 1 and bench.values(topic) == ["m0", "m1"], "one election, and nothing is lost")
    interval = int(AUTOMATIC["leader_imbalance_check_interval_seconds"])
    bench.show(BY_ITSELF, topic, first=1, interval=interval, seconds=seconds, before=before, after=after)


EXPERIMENT = Experiment(
    "preferred-leader",
    Words("Preferred leaders, and how leadership comes back", "선호 리더: 리더십은 어떻게 되돌아오는가"),
    script,
)
