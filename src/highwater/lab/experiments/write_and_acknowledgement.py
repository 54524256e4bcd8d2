"""A write and its acknowledgement: no follower sends an ACK, and the high watermark travels back with a fetch answer."""

from __future__ import annotations

from concurrent.futures import Future
from typing import NamedTuple

from highwater.lab.bench import HELD_SECONDS, Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Lane, Scene, Words

BEFORE = 5
FOLLOWERS = (2, 3)


THREE_REPLICAS_OF_ONE_PARTITION = Scene(
    Words("three replicas of one partition", "한 파티션의 복제본 세 개"),
    Words(
        "Node 1 leads, nodes 2 and 3 follow. Each has {count} records, offsets 0 to {last}. The high watermark is "
        "{count}: the offset behind the last record that every member of the ISR has. It is the offset of the next "
        "record, not of the last one.",
        "노드 1이 리더이고 노드 2와 3이 팔로워다. 모두 레코드 {count}개(오프셋 0~{last})를 가지고 있다. 하이 워터마크는 "
        "{count}이다. ISR의 모든 구성원이 가진 마지막 레코드의 바로 다음 오프셋이며, 마지막 레코드의 오프셋이 아니다.",
    ),
)
THE_LEADER_WRITES = Scene(
    Words("the leader writes", "리더가 기록한다"),
    Words(
        "A producer sends one record with acks=all. The leader writes it at offset {offset}; its log end is now {end}. "
        "We hold the leader's answers to its followers, so they do not have the record. The high watermark stays at "
        "{offset}, no consumer can read the record, and the producer waits.",
        "프로듀서가 acks=all로 레코드 하나를 보낸다. 리더는 오프셋 {offset}에 기록하고, 로그 끝은 {end}이 된다. 리더가 "
        "팔로워에게 보내는 응답을 잠시 붙잡아 두었기 때문에 팔로워에는 아직 레코드가 없다. 하이 워터마크는 {offset}에 "
        "머물고, 컨슈머는 이 레코드를 읽을 수 없으며, 프로듀서는 기다린다.",
    ),
)
THE_FOLLOWERS_HAVE_IT = Scene(
    Words("the followers have it, the leader is not aware", "팔로워는 받았지만 리더는 아직 모른다"),
    Words(
        "The answers arrive, and both followers write the record: log end {end} everywhere. They send no "
        "acknowledgement; there is no such message. Their next fetch would tell, since it asks for offset {end}. We "
        "hold these fetches now, and the high watermark is still {offset}.",
        "응답이 도착해 두 팔로워가 레코드를 기록한다. 이제 모두 로그 끝이 {end}이다. 팔로워는 ACK를 보내지 않는다. 그런 "
        "메시지 자체가 없다. 대신 오프셋 {end}을 요청하는 다음 페치가 그 역할을 한다. 지금은 이 페치를 붙잡아 두었으므로 "
        "하이 워터마크는 여전히 {offset}이다.",
    ),
)
THE_NEXT_FETCH_IS_THE_ACKNOWLEDGEMENT = Scene(
    Words("the next fetch is the acknowledgement", "다음 페치가 곧 확인 응답이다"),
    Words(
        "We let node 2's fetch through: it asks for offset {end}, and the high watermark stays, because node 3 is in the "
        "ISR, too. Then node 3's arrives. Now the leader knows that the whole ISR has offset {offset}: it moves the high "
        "watermark to {end} and answers the producer with offset {offset}.",
        "노드 2의 페치를 먼저 통과시켰다. 오프셋 {end}을 요청하지만 노드 3도 ISR에 있으므로 하이 워터마크는 움직이지 않는다. "
        "이어서 노드 3의 페치가 도착한다. 이제 리더는 ISR 전체가 오프셋 {offset}번을 가졌음을 알고, 하이 워터마크를 {end}으로 "
        "올린 뒤 프로듀서에게 오프셋 {offset}번으로 응답한다.",
    ),
)
THE_HIGH_WATERMARK_TRAVELS_BACK = Scene(
    Words("the high watermark travels back", "하이 워터마크가 되돌아온다"),
    Words(
        "The followers learn the new high watermark {end} from the answer to a later fetch. So a follower's high "
        "watermark is always a little late. Below is what the leader answered; the list has only answers with news.",
        "팔로워는 그다음 페치의 응답에서 새 하이 워터마크 {end}을 알게 된다. 그래서 팔로워의 하이 워터마크는 항상 조금 늦다. "
        "아래는 리더가 실제로 보낸 응답이며, 새 소식이 있는 응답만 실었다.",
    ),
)
LOST = Words(
    "Nothing. A consumer reads {count} records. Had the leader died before a follower had the record, it would have been lost, and "
    "the producer would know: it was never acknowledged. Later on, a new leader would have had it.",
    "아무것도 잃지 않았다. 컨슈머는 레코드 {count}개를 읽는다. 팔로워가 받기 전에 리더가 죽었다면 레코드는 사라졌겠지만, 확인 응답을 "
    "받지 못한 프로듀서는 그 사실을 안다. 그 뒤라면 새 리더가 그 레코드를 가지고 있다.",
)
MISTAKE = Words(
    "The texts say that a follower's fetch returns null once it has everything, and that the leader then moves the "
    "high watermark. It is the request that moves it, by the offset that it asks for; the answer may wait up to "
    "replica.fetch.wait.max.ms. And the high watermark that is written as 5 for offsets up to 5 is 6 in Kafka.",
    "글에서는 팔로워의 페치가 null을 받으면 리더가 하이 워터마크를 옮긴다고 한다. 실제로 하이 워터마크를 옮기는 것은 응답이 "
    "아니라 요청에 담긴 오프셋이며, 응답은 replica.fetch.wait.max.ms까지 기다릴 수 있다. 또 오프셋 5까지 복제되었을 때 "
    "하이 워터마크를 5라고 적었지만 카프카에서는 6이다.",
)


class Spread(NamedTuple):
    """A record that all replicas have, and what was seen meanwhile."""

    topic: str
    sent: Future[int]
    before: tuple[Lane, ...]
    written: tuple[Lane, ...]
    fetched: tuple[Lane, ...]


def script(bench: Bench) -> None:
    seen = bench.caught(lambda: _spread(bench))
    bench.show(THREE_REPLICAS_OF_ONE_PARTITION, lanes=seen.before, count=BEFORE, last=BEFORE - 1)
    bench.show(THE_LEADER_WRITES, lanes=seen.written, offset=BEFORE, end=seen.written[0].log_end)
    bench.show(THE_FOLLOWERS_HAVE_IT, lanes=seen.fetched, offset=BEFORE, end=seen.fetched[1].log_end)
    _acknowledge(bench, seen.topic, seen.sent)


def _spread(bench: Bench) -> Spread:
    """The leader writes a record, then the followers have it, and the leader does not hear of that."""
    cluster = bench.cluster
    topic = bench.topic("lab-write")
    bench.send(topic, [f"m{number}" for number in range(BEFORE)])
    before = bench.until(
        topic, lambda lanes: all(lane.high_watermark == BEFORE for lane in lanes.values()), "all know of the first five"
    )
    for node in FOLLOWERS:
        cluster.cut(1, node, one_way=True)
    sent = bench.sending(topic, "m5")
    written = bench.until(topic, lambda lanes: lanes[1].log_end == BEFORE + 1, "the leader has written the record")
    bench.check(all(written[node].log_end == BEFORE for node in FOLLOWERS), "no follower has the record yet")
    bench.check(written[1].high_watermark == BEFORE and not sent.done(), "nothing is acknowledged yet")
    for node in FOLLOWERS:
        cluster.cut(node, 1, one_way=True)
    for node in FOLLOWERS:
        cluster.join(1, node, one_way=True)
    fetched = bench.until(
        topic,
        lambda lanes: all(lanes[node].log_end == BEFORE + 1 for node in FOLLOWERS),
        "both followers have it",
        HELD_SECONDS,
    )
    bench.check(fetched[1].high_watermark == BEFORE and not sent.done(), "the leader does not know it yet")
    return Spread(topic, sent, tuple(before.values()), tuple(written.values()), tuple(fetched.values()))


def _acknowledge(bench: Bench, topic: str, sent: Future[int]) -> None:
    cluster = bench.cluster
    cluster.join(2, 1, one_way=True)
    bench.until(
        topic,
        lambda lanes: any(each.follower == 2 and each.offset == BEFORE + 1 for each in bench.fetches(topic, 64)),
        "the fetch of node 2 arrives",
    )
    lanes = {lane.node: lane for lane in bench.lanes(topic)}
    bench.check(lanes[1].high_watermark == BEFORE and not sent.done(), "one follower of two is not enough")
    cluster.join(3, 1, one_way=True)
    offset = sent.result(60)
    bench.check(offset == BEFORE, f"the record has offset {BEFORE}")
    lanes = bench.until(topic, lambda lanes: lanes[1].high_watermark == BEFORE + 1, "the leader commits")
    bench.show(
        THE_NEXT_FETCH_IS_THE_ACKNOWLEDGEMENT,
        lanes=tuple(lanes.values()),
        offset=offset,
        end=lanes[1].high_watermark,
    )

    lanes = bench.until(
        topic,
        lambda lanes: all(lanes[node].high_watermark == BEFORE + 1 for node in FOLLOWERS),
        "the followers learn it",
    )
    bench.show(
        THE_HIGH_WATERMARK_TRAVELS_BACK,
        lanes=tuple(lanes.values()),
        fetches=bench.fetches(topic, 8),
        end=BEFORE + 1,
    )
    seen = bench.values(topic)
    bench.check(seen == [f"m{number}" for number in range(BEFORE + 1)], "a consumer reads all six")
    bench.lost(
        LOST,
        count=len(seen),
    )
    bench.mistake(MISTAKE)


EXPERIMENT = Experiment(
    "write-and-acknowledgement",
    Words(
        "A write and its acknowledgement, without an ACK message", "쓰기와 확인 응답: ACK 메시지 없이 어떻게 확인하는가"
    ),
    script,
)
