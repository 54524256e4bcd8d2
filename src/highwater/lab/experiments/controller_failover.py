"""The active controller dies: another voter takes over, and data goes on flowing meanwhile."""

from __future__ import annotations

import time

from highwater.lab.bench import Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words

QUORUM = Scene(
    Words("the active controller is a leader, too", "액티브 컨트롤러도 리더다"),
    Words(
        "Three controllers, 101 to 103, keep the cluster's metadata in a log that they replicate by Raft. Controller "
        "{controller} leads it: it alone decides on leaders and ISRs. The brokers read that log.",
        "컨트롤러 101~103이 클러스터 메타데이터를 Raft로 복제하는 로그에 보관한다. {controller}번 컨트롤러가 이 로그의 리더이며, 파티션 리더와 ISR은 이 "
        "컨트롤러만 결정한다. 브로커는 그 로그를 읽는다.",
    ),
)
DEAD = Scene(
    Words("it dies, and writes go on", "죽어도 쓰기는 계속된다"),
    Words(
        "Controller {old} is killed, and a record is written at once: offset {offset} is acknowledged. Producers, consumers "
        "and followers need no controller as long as no leader and no ISR has to change. After {seconds} s controller {new} "
        "is active.",
        "{old}번 컨트롤러를 강제로 종료하고 바로 레코드를 쓴다. 오프셋 {offset}번이 확인되었다. 리더나 ISR을 바꿀 일이 없는 동안 프로듀서, 컨슈머, 팔로워는 "
        "컨트롤러가 필요 없다. {seconds}초 뒤 {new}번 컨트롤러가 액티브가 되었다.",
    ),
)
DECIDES = Scene(
    Words("the new one decides", "새 컨트롤러가 결정한다"),
    Words(
        "Now broker 1 is killed, too. The new controller chooses node {leader} from the ISR, with epoch {epoch}: it has the "
        "whole metadata log, and lost nothing that was committed.",
        "이제 브로커 1도 강제로 종료한다. 새 컨트롤러가 에포크 {epoch}의 리더로 ISR의 {leader}번 노드를 고른다. 새 컨트롤러는 메타데이터 로그 전체를 "
        "가지고 있으며 커밋된 것은 하나도 잃지 않았다.",
    ),
)
LOST = Words(
    "Nothing. For {seconds} s no leader could have been elected and no topic made; requests for that wait and are tried "
    "again.",
    "아무것도 잃지 않았다. {seconds}초 동안은 리더를 선출하거나 토픽을 만들 수 없었다. 그런 요청은 기다렸다가 다시 시도된다.",
)
MISTAKE = Words(
    "Texts have one broker elected as controller by ZooKeeper, which also tells it of deaths and keeps the ISR. Since Kafka "
    "4.0 there is no ZooKeeper: a quorum of controllers votes by Raft, brokers register and send heartbeats to it, and "
    "metadata is a log. A controller may be a process of its own, as here, or part of a broker.",
    "글에서는 주키퍼가 브로커 하나를 컨트롤러로 뽑고, 브로커의 죽음을 알리며, ISR을 보관한다고 한다. 카프카 4.0부터 주키퍼는 없다. 컨트롤러 쿼럼이 "
    "Raft로 투표하고, 브로커는 여기에 등록해 하트비트를 보내며, 메타데이터는 로그다. 컨트롤러는 여기처럼 독립된 프로세스일 수도, 브로커의 일부일 수도 "
    "있다.",
)


def script(bench: Bench) -> None:
    cluster = bench.cluster
    topic = bench.topic("lab-controller")
    bench.send(topic, ["m0"])
    bench.until(topic, lambda lanes: all(lane.high_watermark == 1 for lane in lanes.values()), "all have the record")
    old = cluster.controller()
    bench.check(old is not None and old > 100, "there is an active controller")
    assert old is not None
    bench.show(QUORUM, topic, controller=old)

    begun = time.monotonic()
    cluster.kill(old)
    offset = bench.send(topic, ["m1"])
    cluster.wait_until(lambda: cluster.controller() not in (None, old), what="another controller is active")
    seconds = round(time.monotonic() - begun, 2)
    new = cluster.controller()
    bench.check(offset == 1 and new is not None, "the write was acknowledged")
    assert new is not None
    bench.show(DEAD, topic, old=old, new=new, offset=offset, seconds=seconds)

    cluster.kill(1)
    leader = cluster.wait_for_leader(topic, 0, other_than=1)
    lanes = bench.until(topic, lambda lanes: len(lanes[leader].epochs) == 2, "the new leader leads")
    epoch = cluster.partition(topic, 0).leader_epoch
    bench.check(bench.values(topic) == ["m0", "m1"], "both records are there")
    bench.show(DECIDES, lanes=tuple(lanes.values()), leader=leader, epoch=epoch)
    bench.lost(LOST, seconds=seconds)
    bench.mistake(MISTAKE)


EXPERIMENT = Experiment(
    "controller-failover",
    Words("The active controller dies", "액티브 컨트롤러가 죽을 때"),
    script,
)
