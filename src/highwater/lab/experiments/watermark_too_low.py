"""The high watermark is too low for a moment: ListOffsets is refused and Fetch waits, until the new leader knows."""

from __future__ import annotations

from concurrent.futures import Future

from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.errors import KafkaError
from highwater.lab.bench import HELD_SECONDS, Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Read, Scene, Words
from highwater.lab.step_reader import StepReader
from highwater.model import TopicPartition

BEFORE = 3
FOLLOWERS = (2, 3)
UNANSWERED = ("NETWORK_EXCEPTION", "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE")


ONLY_THE_LEADER_KNOWS = Scene(
    Words("committed, and only the leader knows", "커밋되었지만 리더만 안다"),
    Words(
        "A record is acknowledged at offset {offset}: all have it, and the leader's high watermark is {hw}. We hold the "
        "leader's answers, so the followers still have high watermark {low}.",
        "오프셋 {offset}의 레코드가 확인되었다. 모두 가지고 있고 리더의 하이 워터마크는 {hw}이다. 리더의 응답을 붙잡아 두었으므로 "
        "팔로워의 하이 워터마크는 아직 {low}이다.",
    ),
)
TOO_LOW = Scene(
    Words("the new leader's high watermark is too low", "새 리더의 하이 워터마크가 너무 낮다"),
    Words(
        "Node 1 dies, and node {leader} leads. The link between nodes 2 and 3 is cut, so nobody has told it how far the "
        "other one is: its high watermark is {low}, below the {hw} that consumers may have seen. If it answered {low} as "
        "the end, offsets would run backwards. So ListOffsets gets {error}. A Fetch at {low} waits, and is answered "
        "with {records} records when its time is over. Clients try again.",
        "노드 1이 죽고 {leader}번 노드가 리더가 된다. 노드 2와 3 사이가 끊겨 있어 상대가 어디까지 가졌는지 알 수 없다. 하이 워터마크는 "
        "{low}이며, 컨슈머가 이미 보았을 수 있는 {hw}보다 낮다. 끝이 {low}번이라고 답하면 오프셋이 뒤로 간다. 그래서 ListOffsets는 "
        "{error} 오류를 받는다. {low}번부터의 Fetch는 기다리다가, 시간이 지나면 레코드 {records}개로 응답받는다. 클라이언트는 다시 "
        "시도한다.",
    ),
)
ONE_FETCH_LATER = Scene(
    Words("one fetch later", "페치 한 번 뒤"),
    Words(
        "The link is healed. The first fetch of the other follower asks for offset {end}, and the high watermark is "
        "{end} again. ListOffsets answers {end}, and a consumer reads the record.",
        "연결이 복구된다. 다른 팔로워의 첫 페치가 {end}번을 요청하자 하이 워터마크도 다시 {end}까지 오른다. ListOffsets는 {end}번을 "
        "답하고 컨슈머는 레코드를 읽는다.",
    ),
)
LOST = Words(
    "Nothing: the acknowledged record was in every member of the ISR. Readers waited for a moment.",
    "아무것도 잃지 않았다. 확인된 레코드는 ISR의 모든 구성원에게 있었다. 읽는 쪽이 잠깐 기다렸을 뿐이다.",
)
MISTAKE = Words(
    "The text has a consumer's Fetch get OFFSET_NOT_AVAILABLE. It is ListOffsets that gets it (KIP-207); a Fetch "
    "beyond the high watermark and within the log is simply answered late, and empty if its time is over.",
    "글에서는 컨슈머의 Fetch가 OFFSET_NOT_AVAILABLE을 받는다고 하지만, 이 오류를 받는 것은 ListOffsets다(KIP-207). 하이 "
    "워터마크보다 뒤이지만 로그 안에 있는 Fetch는 늦게 응답될 뿐이며, 시간이 지나면 빈 응답을 받는다.",
)


def script(bench: Bench) -> None:
    # The leader must die before its followers have left the ISR, however slow the machine is.
    with bench.beside(replica_lag_time_max_ms="60000") as patient:
        _run(patient)


def _run(bench: Bench) -> None:
    topic, sent = bench.caught(lambda: _spread(bench))
    _commit_in_secret(bench, topic, sent)
    leader = _elect(bench, topic)
    _catch_up(bench, topic, leader)
    bench.lost(LOST)
    bench.mistake(MISTAKE)


def _spread(bench: Bench) -> tuple[str, Future[int]]:
    """All replicas get a record, and the leader does not hear of it yet."""
    topic = bench.topic("lab-too-low")
    bench.send(topic, [f"m{number}" for number in range(BEFORE)])
    bench.until(topic, lambda lanes: all(lane.high_watermark == BEFORE for lane in lanes.values()), "all have three")
    for node in FOLLOWERS:
        bench.cluster.cut(node, 1, one_way=True)
    sent = bench.sending(topic, "committed")
    bench.until(
        topic,
        lambda lanes: all(lane.log_end == BEFORE + 1 for lane in lanes.values()),
        "all have the record",
        HELD_SECONDS,
    )
    return topic, sent


def _commit_in_secret(bench: Bench, topic: str, sent: Future[int]) -> None:
    """The leader commits a record, and cannot answer the fetches that would spread the news."""
    cluster = bench.cluster
    for node in FOLLOWERS:
        cluster.cut(1, node, one_way=True)
    for node in FOLLOWERS:
        cluster.join(node, 1, one_way=True)
    offset = sent.result(60)
    lanes = bench.until(topic, lambda lanes: lanes[1].high_watermark == BEFORE + 1, "the leader has committed it")
    bench.check(all(lanes[node].high_watermark == BEFORE for node in FOLLOWERS), "the followers do not know")
    bench.show(
        ONLY_THE_LEADER_KNOWS,
        lanes=tuple(lanes.values()),
        offset=offset,
        hw=BEFORE + 1,
        low=BEFORE,
    )


def _elect(bench: Bench, topic: str) -> int:
    """A follower that does not know what is committed leads, cut from the other one. Returns the leader."""
    cluster = bench.cluster
    cluster.cut(2, 3)
    cluster.kill(1)
    leader = cluster.wait_for_leader(topic, 0, other_than=1)
    error = _first_answer(bench, topic)
    with cluster.client() as client:
        reader = StepReader(client, topic)
        reader.position = BEFORE
        read = reader.fetch()
    bench.check(read == Read(leader, True, BEFORE, 0, BEFORE), f"a Fetch gets no record: {read}")
    lanes = bench.until(topic, lambda lanes: lanes[leader].is_leader, "the new leader leads")
    bench.check(error == "OFFSET_NOT_AVAILABLE", f"ListOffsets is refused; it answered {error}")
    bench.check(lanes[leader].high_watermark == BEFORE, "the new leader's high watermark is too low")
    bench.show(
        TOO_LOW,
        lanes=tuple(lanes.values()),
        reads=(read,),
        leader=leader,
        records=read.records,
        low=BEFORE,
        hw=BEFORE + 1,
        error=error,
    )
    return leader


def _catch_up(bench: Bench, topic: str, leader: int) -> None:
    """One fetch of the other follower is enough."""
    bench.cluster.join(2, 3)
    lanes = bench.until(topic, lambda lanes: lanes[leader].high_watermark == BEFORE + 1, "the high watermark is right")
    end = _latest(bench, topic)
    seen = bench.values(topic)
    bench.check(end == str(BEFORE + 1) and seen[-1] == "committed", "all is as before")
    bench.show(
        ONE_FETCH_LATER,
        lanes=tuple(lanes.values()),
        end=end,
    )


def _first_answer(bench: Bench, topic: str) -> str:
    """As `_latest`, from the new leader: a broker may still name the dead one, or none."""
    answers: list[str] = []

    def is_answered() -> bool:
        answers.append(_latest(bench, topic))
        return answers[-1] not in UNANSWERED

    bench.cluster.wait_until(is_answered, what="the new leader answers ListOffsets")
    return answers[-1]


def _latest(bench: Bench, topic: str) -> str:
    """The latest offset, or the error's name, of one attempt."""
    partition = TopicPartition(topic, 0)
    with bench.cluster.client() as client:
        try:
            client.leader(partition)
        except KafkaError as unknown:
            return unknown.code.name
        client.timeout = 0.0
        found = list_offsets(client, {partition: LATEST})[partition]
    if isinstance(found, KafkaError):
        return found.code.name
    assert isinstance(found, FoundOffset)
    return str(found.offset)


EXPERIMENT = Experiment(
    "watermark-too-low",
    Words("The high watermark, for a moment too low", "잠깐 동안 너무 낮은 하이 워터마크"),
    script,
)
