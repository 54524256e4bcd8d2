"""Racks: replicas are spread over them, and a consumer reads from the follower in its rack for as long as that is in
sync."""

from __future__ import annotations

import time
from collections.abc import Callable

from highwater.config import RACK_AWARE_SELECTOR
from highwater.lab.bench import WAIT_SECONDS, Bench, NotSeen
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Read, Scene, Words
from highwater.lab.step_reader import StepReader

RACKS = ("a", "a", "b", "b")
"""Of brokers 1 to 4."""
PARTITIONS = 4
REPLICAS = (1, 2, 3)
"""The leader, a follower in the leader's rack, and one in the consumer's rack."""
LEADER, BESIDE, NEAR = REPLICAS
BEFORE = 4
PLACED = Scene(
    Words("a replica in every rack", "랙마다 복제본이 있다"),
    Words(
        "Brokers 1 and 2 have broker.rack=a, brokers 3 and 4 have broker.rack=b. A topic of {partitions} partitions with "
        "replication factor {factor} was made, and nobody named brokers for it. The controller put the {factor} replicas of each "
        "partition into {racks} racks. If a whole rack fails, each partition has a replica in the other one.",
        "브로커 1과 2는 broker.rack=a, 브로커 3과 4는 broker.rack=b이다. 위치를 정하지 않고 파티션 {partitions}개, 복제 팩터 {factor}인 토픽을 만들었다. "
        "컨트롤러는 파티션마다 복제본 {factor}개를 랙 {racks}개에 나누어 두었다. 랙 하나가 통째로 멈추어도 다른 랙에 복제본이 남는다.",
    ),
)
SENT = Scene(
    Words("the leader sends a consumer to its rack", "리더가 컨슈머를 같은 랙으로 보낸다"),
    Words(
        "A consumer has client.rack=b, and the brokers have replica.selector.class={selector}. Its first fetch goes to the "
        "leader, node {leader}. The answer has no records. It names the preferred read replica: node {near}, which is in "
        "rack b and in the ISR. The consumer reads {count} records there. A consumer without a rack reads them from the "
        "leader.",
        "컨슈머는 client.rack=b이고, 브로커는 replica.selector.class={selector}이다. 첫 페치는 리더인 {leader}번 노드로 간다. 응답에는 레코드가 없고, 읽을 "
        "복제본(preferred read replica)의 번호가 있다. 랙 b에 있으면서 ISR에 속한 노드 {near}이다. 컨슈머는 거기서 레코드 {count}개를 읽는다. 랙을 정하지 "
        "않은 컨슈머는 리더에서 읽는다.",
    ),
)
OWN = Scene(
    Words("a follower serves up to its own high watermark", "팔로워는 자신의 하이 워터마크까지만 내준다"),
    Words(
        "One record more, at offset {offset}. All have it, and it is committed: the leader's high watermark is {end}. We hold "
        "the leader's answers to node {near}, so node {near} does not know it: its high watermark is {offset}. It has the "
        "record and does not give it out. The same fetch is answered with {there} record by the leader, and with {here} "
        "by node {near}.",
        "오프셋 {offset}에 레코드를 하나 더 쓴다. 모두 가지고 있고 커밋도 되었으므로 리더의 하이 워터마크는 {end}이다. 그러나 노드 {near}에게 가는 리더의 응답을 "
        "붙잡아 두었으므로 노드 {near}은 이를 모른다. 하이 워터마크는 아직 {offset}이고, 레코드를 가지고 있어도 내주지 않는다. 같은 페치에 리더는 레코드 "
        "{there}개로, 노드 {near}은 {here}개로 답한다.",
    ),
)
LATER = Scene(
    Words("one fetch of the follower later", "팔로워의 페치 한 번 뒤"),
    Words(
        "The answers go through again, and node {near} learns the high watermark {end}. The consumer gets the record from "
        "node {near}. So reading from a follower is a little later, and never shows a record that is not committed.",
        "응답이 다시 전해지고 노드 {near}은 하이 워터마크가 {end}임을 알게 된다. 컨슈머는 노드 {near}에서 그 레코드를 받는다. 팔로워에서 읽으면 조금 늦을 뿐, "
        "커밋되지 않은 레코드를 보는 일은 없다.",
    ),
)
LAGS = Scene(
    Words("the follower lags and leaves the ISR", "팔로워가 뒤처져 ISR에서 빠진다"),
    Words(
        "A second cluster. Node {near} is cut from the leader, and {more} records are written with acks=all. They are "
        "acknowledged when node {near} has left the ISR. Now node {near} refuses the consumer with {error}. The consumer asks "
        "the leader again, at offset {offset}, where it had stopped, and reads on there.",
        "두 번째 클러스터다. 노드 {near}과 리더 사이를 끊고 acks=all로 레코드 {more}개를 쓴다. 노드 {near}이 ISR에서 빠지자 확인된다. 이제 노드 {near}은 "
        "컨슈머를 {error} 오류로 거부한다. 컨슈머는 멈춘 자리인 {offset}번부터 다시 리더에게 묻고, 리더에서 계속 읽는다.",
    ),
)
RETURNS = Scene(
    Words("it returns, and so does the consumer", "팔로워가 돌아오자 컨슈머도 돌아온다"),
    Words(
        "The link is healed, and node {near} is in the ISR again. The next fetch at the leader is answered with node {near} "
        "as the preferred read replica, and the consumer reads the next record there.",
        "연결을 복구하자 노드 {near}이 다시 ISR에 들어간다. 리더는 다음 페치에 다시 노드 {near}을 읽을 복제본으로 알려 주고, 컨슈머는 다음 레코드를 거기서 읽는다.",
    ),
)
DIES = Scene(
    Words("the follower dies", "팔로워가 죽는다"),
    Words(
        "Node {near} is killed, and one record more is written. The consumer loses its connection, asks the leader at offset "
        "{offset}, and reads the record there. The leader does not send it to node {near}: that is out of the ISR.",
        "노드 {near}을 강제로 종료하고 레코드를 하나 더 쓴다. 컨슈머는 연결이 끊기자 {offset}번부터 리더에게 묻고 거기서 레코드를 읽는다. 리더는 ISR에서 빠진 노드 "
        "{near}으로 보내지 않는다.",
    ),
)
LOST = Words(
    "Nothing, and nothing was read twice: the consumer has {count} records, offsets 0 to {last}, each one once and in order. "
    "All replicas have the same records at the same offsets, so the consumer's position is right at every one of them.",
    "아무것도 잃지 않았고 두 번 읽은 것도 없다. 컨슈머는 레코드 {count}개(오프셋 0~{last})를 순서대로 한 번씩 읽었다. 모든 복제본이 같은 오프셋에 같은 레코드를 "
    "가지므로, 컨슈머의 위치는 어느 복제본에서나 그대로 맞는다.",
)
MISTAKE = Words(
    "Texts say that consumers read from leaders only, and that a follower answers nobody. Writes go to the leader only, and "
    "reads do so by default. Since Kafka 2.4 (KIP-392) a consumer can read from a follower, if the brokers have a "
    "replica.selector.class and the consumer has a client.rack. A text has replicas spread over racks by a self-balancing "
    "cluster: that is a product of Confluent. Kafka heeds racks when it makes a topic or partitions, and when "
    "`reassign --generate` makes a plan. It moves nothing by itself.",
    "글에서는 컨슈머가 리더에서만 읽고 팔로워는 어떤 요청도 받지 않는다고 한다. 쓰기는 리더에만 하며, 읽기도 기본값은 리더다. 그러나 카프카 2.4(KIP-392)부터는 "
    "브로커에 replica.selector.class를, 컨슈머에 client.rack을 설정하면 팔로워에서 읽을 수 있다. 또 글에는 self-balancing cluster가 랙 사이의 균형을 맞춘다고 "
    "나오지만 이는 Confluent의 제품이다. 카프카는 토픽이나 파티션을 만들 때, 그리고 `reassign --generate`로 계획을 세울 때 랙을 고려하며, 저절로 옮기지는 "
    "않는다.",
)


def script(bench: Bench) -> None:
    # In the first cluster the follower must stay in the ISR while its news is held, however slow the machine is.
    with bench.beside(RACKS, replica_selector_class=RACK_AWARE_SELECTOR, replica_lag_time_max_ms="60000") as patient:
        _place(patient)
        _read_nearby(patient)
    with bench.beside(RACKS, replica_selector_class=RACK_AWARE_SELECTOR) as strict:
        _go_back(strict)
    bench.mistake(MISTAKE)


def _place(bench: Bench) -> None:
    """A topic for which nobody chooses the brokers."""
    topic, factor = "lab-placed", len(set(RACKS))
    bench.cluster.create_topic(topic, PARTITIONS, factor)
    rows = []
    for partition, view in sorted(bench.cluster.view(topic).partitions.items()):
        racks = [RACKS[node - 1] for node in view.replicas]
        bench.check(len(set(racks)) == factor, f"partition {partition} is in all racks; it is in {racks}")
        rows.append(f"{partition:>9}   {', '.join(map(str, view.replicas)):<8}   {', '.join(racks)}")
    heading = Words("  partition   replicas   racks", "  파티션      복제본     랙")
    bench.show(PLACED, files=((heading, "\n".join(rows)),), partitions=len(rows), factor=factor, racks=len(set(RACKS)))


def _read_nearby(bench: Bench) -> None:
    """The follower in the consumer's rack serves it, and only what the follower knows to be committed."""
    topic = _topic_with_records(bench)
    with bench.cluster.client() as client, bench.cluster.client() as other_client:
        near, far = StepReader(client, topic, "b"), StepReader(other_client, topic)
        reads = _read_to(near, BEFORE)
        wanted = [Read(LEADER, True, 0, 0, BEFORE, NEAR), Read(NEAR, False, 0, BEFORE, BEFORE)]
        bench.check(reads == wanted, f"the leader sends it to node {NEAR}: {reads}")
        bench.check([each.node for each in _read_to(far, BEFORE)] == [LEADER], "without a rack the leader serves")
        bench.show(
            SENT,
            topic,
            reads=reads,
            selector=RACK_AWARE_SELECTOR.rpartition(".")[2],
            leader=LEADER,
            near=NEAR,
            count=BEFORE,
        )

        _commit_in_secret(bench, topic)
        lanes = {lane.node: lane for lane in bench.lanes(topic)}
        here, there = near.fetch(), far.fetch()
        bench.check(
            (here.node, here.records, here.high_watermark) == (NEAR, 0, BEFORE), f"node {NEAR} gives nothing: {here}"
        )
        bench.check((there.node, there.records) == (LEADER, 1), f"the leader gives the record: {there}")
        bench.show(
            OWN,
            lanes=tuple(lanes.values()),
            reads=(there, here),
            offset=BEFORE,
            end=lanes[LEADER].high_watermark,
            near=NEAR,
            there=there.records,
            here=here.records,
        )

        bench.cluster.join(LEADER, NEAR, one_way=True)
        reads = _read_to(near, BEFORE + 1)
        lanes = bench.until(topic, lambda lanes: lanes[NEAR].high_watermark == BEFORE + 1, "the follower learns it")
        bench.check([each.node for each in reads] == [NEAR], f"node {NEAR} gives the record: {reads}")
        bench.show(LATER, lanes=tuple(lanes.values()), reads=reads, near=NEAR, end=BEFORE + 1)


def _topic_with_records(bench: Bench) -> str:
    topic = bench.topic("lab-near", REPLICAS)
    bench.send(topic, [f"m{number}" for number in range(BEFORE)])
    bench.until(topic, lambda lanes: all(lane.high_watermark == BEFORE for lane in lanes.values()), "all have all")
    return topic


def _commit_in_secret(bench: Bench, topic: str) -> None:
    """The near follower has the record, and does not hear that it is committed. The other follower, which gets it last,
    decides when it is."""
    cluster = bench.cluster
    cluster.cut(LEADER, BESIDE)
    bench.send(topic, [f"m{BEFORE}"], acks=1)
    bench.until(
        topic,
        lambda lanes: any(each.follower == NEAR and each.offset == BEFORE + 1 for each in bench.fetches(topic, 64)),
        "the leader knows that the near follower has the record",
    )
    cluster.cut(LEADER, NEAR, one_way=True)
    cluster.join(LEADER, BESIDE)
    lanes = bench.until(topic, lambda lanes: lanes[LEADER].high_watermark == BEFORE + 1, "the record is committed")
    bench.check((lanes[NEAR].high_watermark, lanes[NEAR].log_end) == (BEFORE, BEFORE + 1), "the follower does not know")


def _go_back(bench: Bench) -> None:
    """The near follower leaves the ISR, returns, and dies: one consumer reads on through all of it."""
    cluster, topic = bench.cluster, _topic_with_records(bench)
    with cluster.client() as client:
        reader = StepReader(client, topic, "b")
        bench.check(_read_to(reader, BEFORE)[-1].node == NEAR, f"node {NEAR} serves the consumer")
        _lag(bench, topic, reader)
        _return(bench, topic, reader)
        _die(bench, topic, reader)
    written = bench.values(topic)
    bench.check(reader.values == written, f"each record once and in order: {reader.values}")
    bench.check(written == [f"m{number}" for number in range(BEFORE + 4)], f"nothing is lost: {written}")
    bench.lost(LOST, count=len(written), last=len(written) - 1)


def _lag(bench: Bench, topic: str, reader: StepReader) -> None:
    cluster = bench.cluster
    cluster.cut(LEADER, NEAR)
    bench.send(topic, [f"m{BEFORE}", f"m{BEFORE + 1}"])
    bench.wait_for_isr(topic, {LEADER, BESIDE})
    lanes = tuple(bench.lanes(topic))
    reads = _read_to(reader, BEFORE + 2)
    bench.check([each.node for each in reads] == [NEAR, LEADER], f"it goes back to the leader: {reads}")
    bench.show(LAGS, lanes=lanes, reads=reads, near=NEAR, more=2, error=reads[0].error, offset=reads[1].offset)


def _return(bench: Bench, topic: str, reader: StepReader) -> None:
    bench.cluster.join(LEADER, NEAR)
    bench.wait_for_isr(topic, REPLICAS)
    reads = _read_until(reader, lambda read: read.preferred >= 0, "the leader sends the consumer away again")
    bench.send(topic, [f"m{BEFORE + 2}"])
    reads += _read_to(reader, BEFORE + 3)
    bench.check([each.node for each in reads] == [LEADER, NEAR], f"node {NEAR} serves it again: {reads}")
    bench.show(RETURNS, topic, reads=reads, near=NEAR)


def _die(bench: Bench, topic: str, reader: StepReader) -> None:
    bench.cluster.kill(NEAR)
    bench.send(topic, [f"m{BEFORE + 3}"])
    bench.wait_for_isr(topic, {LEADER, BESIDE})
    reads = _read_to(reader, BEFORE + 4)
    bench.check([each.node for each in reads] == [NEAR, LEADER], f"it goes back to the leader: {reads}")
    bench.show(DIES, topic, reads=reads, near=NEAR, offset=reads[1].offset)


def _read_to(reader: StepReader, end: int) -> list[Read]:
    """The fetches that had news, until the consumer is at this offset."""
    return _read_until(reader, lambda _: reader.position >= end, f"the consumer is at {end}")


def _read_until(reader: StepReader, is_done: Callable[[Read], bool], what: str) -> list[Read]:
    deadline = time.monotonic() + WAIT_SECONDS
    reads = []
    while time.monotonic() < deadline:
        read = reader.fetch()
        if read.records or read.error or read.preferred >= 0:
            reads.append(read)
        if is_done(read):
            return reads
        if read.error:
            time.sleep(0.005)
    raise NotSeen(f"not within {WAIT_SECONDS:g} s: {what}; the last fetches: {reads[-4:]}")


EXPERIMENT = Experiment(
    "racks-and-followers",
    Words("Racks, and reading from followers", "랙, 그리고 팔로워에서 읽기"),
    script,
)
