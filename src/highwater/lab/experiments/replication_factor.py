"""Replication factor 1 and the broker dies; then 3, and it does not matter."""

from __future__ import annotations

from highwater.client.failures import ClientFailure
from highwater.errors import KafkaError
from highwater.lab.bench import Bench, NotSeen
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words

RECORDS = 4


ONE_REPLICA = Scene(
    Words("one replica", "복제본이 하나일 때"),
    Words(
        "A topic with replication factor 1. Node 2 has its only replica, with {count} acknowledged records.",
        "복제 팩터가 1인 토픽이다. 유일한 복제본이 노드 2에 있고, 확인 응답을 받은 레코드가 {count}개 있다.",
    ),
)
THREE_REPLICAS = Scene(
    Words("three replicas", "복제본이 셋일 때"),
    Words(
        "A topic with replication factor 3 and the same {count} records. Node 2 leads it, too.",
        "복제 팩터가 3인 토픽이며 레코드는 똑같이 {count}개다. 이 토픽의 리더도 노드 2다.",
    ),
)
ONE_REPLICA_OFFLINE = Scene(
    Words("node 2 dies: the first topic is offline", "노드 2가 죽는다: 첫 번째 토픽은 오프라인"),
    Words(
        "We kill node 2. No other node has a replica, so there is no leader: a write fails with {error}, and nothing can "
        "be read. The records are on the disk of the dead node, and nowhere else.",
        "노드 2를 강제로 종료한다. 다른 노드에는 복제본이 없으므로 리더도 없다. 쓰기는 {error} 오류로 실패하고 읽을 수도 "
        "없다. 레코드는 죽은 노드의 디스크에만 있다.",
    ),
)
THE_SECOND_TOPIC_DOES_NOT_MIND = Scene(
    Words("the second topic does not mind", "두 번째 토픽은 아무 일도 없다"),
    Words(
        "The controller chose node {leader} from the ISR, and the leader epoch is now {epoch}. All {count} old records "
        "are there, and a new one was acknowledged.",
        "컨트롤러가 ISR에서 {leader}번 노드를 새 리더로 골랐고, 리더 에포크는 {epoch}이 되었다. 기존 레코드 {count}개가 모두 있고 "
        "새 레코드도 확인 응답을 받았다.",
    ),
)
NODE_2_RETURNS = Scene(
    Words("node 2 returns", "노드 2가 돌아온다"),
    Words(
        "We start node 2 again. Its disk survived, so the {count} records of the first topic are back. Had the disk been "
        "lost, they would be gone for good.",
        "노드 2를 다시 시작한다. 디스크가 남아 있으므로 첫 번째 토픽의 레코드 {count}개도 돌아온다. 디스크까지 잃었다면 "
        "영영 사라졌을 것이다.",
    ),
)
LOST = Words(
    "No record was lost, because the disk survived. But the first topic could be neither written nor read while its "
    "only replica was down. The second one had a new leader at once.",
    "디스크가 남아 있어서 레코드를 잃지는 않았다. 그러나 첫 번째 토픽은 유일한 복제본이 죽어 있는 동안 쓸 수도 읽을 수도 "
    "없었다. 두 번째 토픽에는 바로 새 리더가 생겼다.",
)
MISTAKE = Words(
    "A text says that N replicas survive N-1 dead brokers without loss. That holds for records that every replica "
    "has: acknowledged with acks=all while the whole ISR was there. With acks=1, or an ISR that had shrunk to the "
    "leader, one dead broker is enough. ZooKeeper, which the texts have choose the leader, is gone: a Raft quorum of "
    "controllers does it.",
    "글에서는 복제본이 N개면 브로커 N-1대가 죽어도 유실이 없다고 한다. 이는 모든 복제본이 가진 레코드, 즉 ISR이 온전할 때 "
    "acks=all로 확인된 레코드에만 해당한다. acks=1이거나 ISR이 리더만 남았다면 한 대만 죽어도 유실된다. 또 글에서 리더를 "
    "뽑는다고 한 주키퍼는 이제 없다. 컨트롤러들의 Raft 쿼럼이 그 일을 한다.",
)


def script(bench: Bench) -> None:
    values = [f"m{number}" for number in range(RECORDS)]
    alone = bench.topic("lab-alone", (2,))
    three = bench.topic("lab-three", (2, 3, 1))
    for topic in (alone, three):
        bench.send(topic, values)
    bench.until(three, lambda lanes: all(lane.high_watermark == RECORDS for lane in lanes.values()), "all have all")
    bench.show(
        ONE_REPLICA,
        alone,
        count=RECORDS,
    )
    bench.show(
        THREE_REPLICAS,
        three,
        count=RECORDS,
    )
    _kill(bench, alone, three, values)
    _return(bench, alone, values)
    bench.lost(LOST)
    bench.mistake(MISTAKE)


def _kill(bench: Bench, alone: str, three: str, values: list[str]) -> None:
    """The broker dies that leads both topics."""
    cluster = bench.cluster
    cluster.kill(2)
    cluster.wait_until(lambda: cluster.leader(alone, 0) is None, what=f"{alone} has no leader")
    error = bench.refusal(alone, "m-new")
    bench.show(
        ONE_REPLICA_OFFLINE,
        alone,
        error=error,
    )

    leader = cluster.wait_for_leader(three, 0, other_than=2)
    bench.wait_for_isr(three, {1, 3})
    bench.send(three, ["m-new"])
    read = bench.values(three)
    bench.check(read == [*values, "m-new"], "the second topic has everything, and takes more")
    epoch = cluster.partition(three, 0).leader_epoch
    bench.show(
        THE_SECOND_TOPIC_DOES_NOT_MIND,
        three,
        leader=leader,
        epoch=epoch,
        count=RECORDS,
    )


def _return(bench: Bench, alone: str, values: list[str]) -> None:
    """What its disk still has is there again."""
    cluster = bench.cluster
    cluster.start(2)
    cluster.wait_for_leader(alone, 0, 2)
    back = _read(bench, alone)
    bench.check(back == values, "the disk still had the records")
    bench.show(
        NODE_2_RETURNS,
        alone,
        count=len(back),
    )


def _read(bench: Bench, topic: str) -> list[str]:
    """The broker that leads may not serve in the moment of its return."""
    found: list[list[str]] = []

    def is_served() -> bool:
        try:
            found.append(bench.values(topic))
        except (KafkaError, ClientFailure, TimeoutError):
            return False
        return True

    bench.cluster.wait_until(is_served, what=f"{topic} can be read")
    if not found:
        raise NotSeen(f"{topic} cannot be read")
    return found[-1]


EXPERIMENT = Experiment(
    "replication-factor",
    Words(
        "One replica and the broker dies; three, and it does not matter",
        "복제본 하나일 때와 셋일 때, 브로커가 죽는다면",
    ),
    script,
)
