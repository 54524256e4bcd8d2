"""Two logs diverge, and are reconciled by leader epoch: the old leader returns and cuts off what only it has."""

from __future__ import annotations

from highwater.lab.bench import Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words

BEFORE = 3
STRAY = ("stray0", "stray1")
NEW = ("new0", "new1", "new2")


RECORDS_THAT_ONLY_THE_LEADER_HAS = Scene(
    Words("records that only the leader has", "리더만 가진 레코드"),
    Words(
        "Node 1 is cut from its followers. It takes {count} records with acks=1, and acknowledges them: offsets {first} "
        "to {last}. No other replica has them.",
        "노드 1과 팔로워 사이를 끊는다. 노드 1은 acks=1로 레코드 {count}개(오프셋 {first}~{last})를 받고 확인 응답까지 보낸다. 다른 "
        "복제본에는 없다.",
    ),
)
TWO_HISTORIES = Scene(
    Words("two histories", "두 갈래의 역사"),
    Words(
        "Node 1 dies, and node {leader} leads with epoch {epoch}. It writes new records from offset {first} on: the same "
        "offsets, other records. The lane of node 1 is what lies on its disk.",
        "노드 1이 죽고 {leader}번 노드가 에포크 {epoch}의 리더가 된다. 오프셋 {first}부터 새 레코드를 쓴다. 오프셋은 같지만 레코드는 "
        "다르다. 노드 1의 줄은 디스크에 남아 있는 내용이다.",
    ),
)
THE_OLD_LEADER_RETURNS = Scene(
    Words("the old leader returns", "옛 리더가 돌아온다"),
    Words(
        "Node 1 asks for offset {asked} and says that its last record is of epoch 0. The leader looks up where epoch 0 "
        "ends in its own log: at {first}. The answer carries that instead of records (KIP-595 calls it the diverging "
        "epoch). Node 1 truncates to {first}, fetches from there, and is in the ISR again. All logs are the same, epochs "
        "included.",
        "노드 1은 {asked}번을 요청하면서 자신의 마지막 레코드가 에포크 0의 것이라고 알린다. 리더는 자기 로그에서 에포크 0이 끝나는 "
        "곳, 곧 {first}번을 찾아 레코드 대신 그 값을 응답에 담는다(KIP-595의 diverging epoch). 노드 1은 {first}번까지 잘라 낸 뒤 "
        "거기서부터 가져와 다시 ISR에 들어간다. 이제 에포크까지 모든 로그가 같다.",
    ),
)
LOST = Words(
    "{count} records, {names}: acknowledged with acks=1 by a leader that died before any follower had them. With "
    "acks=all they would not have been acknowledged.",
    "레코드 {count}개({names})를 잃었다. 팔로워가 받기 전에 죽은 리더가 acks=1로 확인해 준 레코드들이다. acks=all이었다면 확인 "
    "응답이 나가지 않았을 것이다.",
)
MISTAKE = Words(
    "Texts have a returning broker truncate to its high watermark, or to its checkpoint. It did until 0.11. Since "
    "then it truncates to where its own history and the leader's part, which the leader epochs tell (KIP-101, "
    "KIP-279); nothing more is cut off.",
    "글에서는 돌아온 브로커가 하이 워터마크나 체크포인트까지 로그를 자른다고 한다. 0.11 전까지는 그랬다. 그 뒤로는 자신의 역사와 "
    "리더의 역사가 갈라지는 곳까지만 자르며, 그 위치는 리더 에포크로 알아낸다(KIP-101, KIP-279). 그 이상은 자르지 않는다.",
)


def script(bench: Bench) -> None:
    # The leader must die before its followers have left the ISR, however slow the machine is.
    with bench.beside(replica_lag_time_max_ms="60000") as patient:
        _run(patient)


def _run(bench: Bench) -> None:
    topic = bench.topic("lab-diverge")
    values = [f"m{number}" for number in range(BEFORE)]
    bench.send(topic, values)
    bench.until(topic, lambda lanes: all(lane.high_watermark == BEFORE for lane in lanes.values()), "all have three")
    _stray(bench, topic)
    leader = _elect(bench, topic)
    _reconcile(bench, topic, leader, [*values, *NEW])
    bench.lost(
        LOST,
        count=len(STRAY),
        names=", ".join(STRAY),
    )
    bench.mistake(MISTAKE)


def _stray(bench: Bench, topic: str) -> None:
    """The leader is cut off, and takes records that nobody else gets."""
    for node in (2, 3):
        bench.cluster.cut(1, node)
    bench.send(topic, STRAY, acks=1)
    lanes = {lane.node: lane for lane in bench.lanes(topic)}
    bench.check(
        lanes[1].log_end == BEFORE + len(STRAY) and lanes[2].log_end == BEFORE, "only the leader has the strays"
    )
    bench.show(
        RECORDS_THAT_ONLY_THE_LEADER_HAS,
        lanes=tuple(lanes.values()),
        count=len(STRAY),
        first=BEFORE,
        last=BEFORE + len(STRAY) - 1,
    )


def _elect(bench: Bench, topic: str) -> int:
    """The leader dies, and another one writes a history of its own. Returns the new leader."""
    cluster = bench.cluster
    cluster.kill(1)
    leader = cluster.wait_for_leader(topic, 0, other_than=1)
    # Bytes of the old leader that the cut held must not arrive before the new one knows that it leads.
    bench.until(topic, lambda lanes: lanes[leader].epochs == ((0, 0), (1, BEFORE)), "the new leader leads")
    cluster.heal()
    bench.send(topic, NEW)
    follower = 5 - leader
    lanes = bench.until(topic, lambda lanes: lanes[follower].log_end == BEFORE + len(NEW), "both have the new records")
    epoch = cluster.partition(topic, 0).leader_epoch
    bench.show(
        TWO_HISTORIES,
        lanes=tuple(lanes.values()),
        leader=leader,
        epoch=epoch,
        first=BEFORE,
    )
    return leader


def _reconcile(bench: Bench, topic: str, leader: int, history: list[str]) -> None:
    """The old leader returns, and takes over the history of the new one."""
    bench.cluster.start(1)
    bench.wait_for_isr(topic, 3)
    lanes = bench.until(
        topic,
        lambda lanes: lanes[1].log_end == BEFORE + len(NEW) and lanes[1].epochs == lanes[leader].epochs,
        "node 1 has the leader's log",
    )
    seen = bench.values(topic)
    bench.check(seen == history, "a consumer reads the new history only")
    bench.show(
        THE_OLD_LEADER_RETURNS,
        lanes=tuple(lanes.values()),
        asked=BEFORE + len(STRAY),
        first=BEFORE,
    )


EXPERIMENT = Experiment(
    "divergence",
    Words(
        "Divergence, truncation by leader epoch, and the old leader's return",
        "갈라진 로그: 리더 에포크에 의한 절단과 옛 리더의 복귀",
    ),
    script,
)
