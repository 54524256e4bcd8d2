"""The leader is killed: a clean election, and a record that nobody acknowledged becomes visible."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future

from highwater.client.client import Client
from highwater.client.producer import Producer
from highwater.lab.bench import HELD_SECONDS, Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Lane, Scene, Words
from highwater.model import TopicPartition

BEFORE = 3
FOLLOWERS = (2, 3)


NOBODY_KNOWS = Scene(
    Words("everybody has the record, and nobody knows", "모두가 가졌지만 아무도 모르는 레코드"),
    Words(
        "One record more, with acks=all. All three replicas have it at offset {offset}. We hold the followers' next "
        "fetches, so the leader cannot know: the high watermark is {offset}, and the producer waits.",
        "acks=all로 레코드를 하나 더 보낸다. 세 복제본 모두 오프셋 {offset}에 가지고 있다. 팔로워의 다음 페치를 붙잡아 두었으므로 "
        "리더는 알 수 없다. 하이 워터마크는 {offset}이고 프로듀서는 기다린다.",
    ),
)
THE_LEADER_DIES = Scene(
    Words("the leader dies", "리더가 죽는다"),
    Words(
        "We kill node 1. After {seconds} s node {leader} leads, from the ISR: a clean election. The leader epoch is "
        "{epoch}, and it begins at offset {start}. The producer got {failure} and no offset. But the new leader has the "
        "record, and so has the rest of the ISR: it is committed now, and a consumer reads it. No answer does not mean "
        "not written.",
        "노드 1을 강제로 종료한다. {seconds}초 뒤 ISR에 있던 {leader}번 노드가 리더가 된다. 정상적인(clean) 선출이다. 리더 에포크는 "
        "{epoch}이며 오프셋 {start}에서 시작한다. 프로듀서는 오프셋 대신 {failure} 오류를 받았다. 그러나 새 리더와 나머지 ISR이 그 "
        "레코드를 가지고 있으므로 이제 커밋되었고 컨슈머가 읽는다. 응답이 없다고 기록되지 않은 것은 아니다.",
    ),
)
CLIENTS_FIND_THE_LEADER = Scene(
    Words("clients and the old leader find the new one", "클라이언트와 옛 리더가 새 리더를 찾는다"),
    Words(
        "The producer of the first {before} records knows node {old} as the leader, and sends one record more. Its "
        "connection is broken, so it asks any other broker for metadata, and goes to node {leader}: offset {offset} is "
        "acknowledged. Node {old} returns as a follower and is in the ISR again.",
        "처음 레코드 {before}개를 쓴 프로듀서는 노드 {old}을 리더로 알고 있다. 이 프로듀서가 레코드를 하나 더 보낸다. 연결이 끊겼으므로 "
        "다른 아무 브로커에게나 메타데이터를 묻고 {leader}번 노드로 간다. 오프셋 {offset}번이 확인되었다. 노드 {old}은 팔로워로 돌아와 다시 "
        "ISR에 들어간다.",
    ),
)
LOST = Words(
    "Nothing. The unacknowledged record survived. A producer that sends it again without enable.idempotence would "
    "store it twice; an idempotent one is recognised by its sequence number.",
    "아무것도 잃지 않았다. 확인받지 못한 레코드도 살아남았다. enable.idempotence 없이 다시 보내면 두 번 저장되고, 멱등 "
    "프로듀서라면 시퀀스 번호로 중복을 알아낸다.",
)
MISTAKE = Words(
    'A text asks how a replica can have a record that was never committed, and answers "data that came in is not '
    'deleted". A follower always has records above the high watermark for a moment; they stay if the new leader has '
    "them, and they are cut off if it does not (see the experiment divergence). Controllers learn of a death by "
    "missing heartbeats, not from ZooKeeper.",
    '글에서는 커밋된 적 없는 레코드를 어떻게 가지고 있는지 묻고 "한번 들어온 데이터는 지우지 않는다"고 답한다. 팔로워는 늘 '
    "잠깐씩 하이 워터마크 위의 레코드를 가진다. 새 리더에게 있으면 남고, 없으면 잘려 나간다(divergence 실험). 또 컨트롤러는 "
    "주키퍼가 아니라 끊긴 하트비트로 브로커의 죽음을 안다.",
)


def script(bench: Bench) -> None:
    # The leader must die before its followers have left the ISR, however slow the machine is.
    with bench.beside(replica_lag_time_max_ms="60000") as patient:
        _run(patient)


def _run(bench: Bench) -> None:
    values = [f"m{number}" for number in range(BEFORE)]
    with bench.cluster.client() as client:
        topic, sent, lanes = bench.caught(lambda: _send_in_vain(bench, client, values))
        old = client.leader(TopicPartition(topic, 0))
        bench.show(NOBODY_KNOWS, lanes=lanes, offset=BEFORE)
        leader = _kill(bench, topic, sent, [*values, "unacknowledged"])
        bench.check(client.leader(TopicPartition(topic, 0)) == old == 1, "the first producer knows only the old leader")
        offset = _send(client, topic, "after")
        found = client.leader(TopicPartition(topic, 0))
    bench.check((found, offset) == (leader, BEFORE + 1), f"the producer finds the new leader: {found}, {offset}")
    _return(bench, topic, old, leader, offset)
    bench.lost(LOST)
    bench.mistake(MISTAKE)


def _send_in_vain(bench: Bench, client: Client, values: Sequence[str]) -> tuple[str, Future[int], tuple[Lane, ...]]:
    """All replicas get a record, and the leader does not hear of it: it cannot acknowledge."""
    topic = bench.topic("lab-killed")
    for value in values:
        _send(client, topic, value)
    bench.until(topic, lambda lanes: all(lane.high_watermark == BEFORE for lane in lanes.values()), "all have all")
    for node in FOLLOWERS:
        bench.cluster.cut(node, 1, one_way=True)
    sent = bench.sending(topic, "unacknowledged")
    lanes = bench.until(
        topic,
        lambda lanes: all(lane.log_end == BEFORE + 1 for lane in lanes.values()),
        "all have the new record",
        HELD_SECONDS,
    )
    bench.check(not sent.done() and lanes[1].high_watermark == BEFORE, "it is not acknowledged")
    return topic, sent, tuple(lanes.values())


def _kill(bench: Bench, topic: str, sent: Future[int], expected: list[str]) -> int:
    """The leader dies with the record unacknowledged. Returns the new leader."""
    cluster = bench.cluster
    begun = time.monotonic()
    cluster.kill(1)
    leader = cluster.wait_for_leader(topic, 0, other_than=1)
    seconds = round(time.monotonic() - begun, 2)
    failure = sent.exception(60)
    bench.check(failure is not None, "the producer gets an error instead of an offset")
    epoch = cluster.partition(topic, 0).leader_epoch
    lanes = bench.until(
        topic,
        lambda lanes: lanes[leader].high_watermark == BEFORE + 1 and len(lanes[leader].epochs) == 2,
        "the new leader commits what it has",
    )
    seen = bench.values(topic)
    bench.check(seen == expected, "the record is visible")
    bench.show(
        THE_LEADER_DIES,
        lanes=tuple(lanes.values()),
        seconds=seconds,
        leader=leader,
        epoch=epoch,
        start=BEFORE + 1,
        failure=type(failure).__name__,
    )
    return leader


def _send(client: Client, topic: str, value: str) -> int:
    """By a client that goes on to use what it knows of the cluster."""
    producer = Producer(client, idempotent=False)
    return producer.send(TopicPartition(topic, 0), [(time.time_ns() // 1_000_000, None, value.encode(), ())])


def _return(bench: Bench, topic: str, old: int, leader: int, offset: int) -> None:
    """The old leader is a follower now."""
    cluster = bench.cluster
    cluster.start(old)
    cluster.heal()
    bench.wait_for_isr(topic, 3)
    lanes = bench.until(topic, lambda lanes: lanes[1].log_end == BEFORE + 2, "node 1 has caught up")
    bench.show(
        CLIENTS_FIND_THE_LEADER,
        lanes=tuple(lanes.values()),
        before=BEFORE,
        old=old,
        leader=leader,
        offset=offset,
    )


EXPERIMENT = Experiment(
    "leader-killed",
    Words(
        "The leader is killed: a clean election, and a record nobody acknowledged",
        "리더가 죽을 때: 정상 선출과 확인받지 못한 레코드",
    ),
    script,
)
