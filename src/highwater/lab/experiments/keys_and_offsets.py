"""Keys and partitions; two groups; committed offset, position, high watermark, log end and lag."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from highwater.client.consumer import Consumer
from highwater.client.groups import Groups
from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.client.producer import Producer, partition_for_key
from highwater.lab.bench import Bench
from highwater.lab.experiment import Experiment
from highwater.lab.frame import Scene, Words
from highwater.model import TopicPartition

PARTITIONS = 3
KEYS = (b"pear", b"apple", b"peach", b"pear", b"apple", b"peach")
COMMITTED_RECORDS = 6
MORE = 2
BY_KEY = Scene(
    Words("a key has its partition", "키마다 파티션이 정해져 있다"),
    Words(
        "{count} records with keys go to a topic of {partitions} partitions. The producer decides, not the broker: the hash "
        "of the key (murmur2) modulo the number of partitions. So equal keys are in one partition, in order.",
        "키가 있는 레코드 {count}개를 파티션 {partitions}개짜리 토픽에 보낸다. 파티션은 브로커가 아니라 프로듀서가 정한다. 키의 해시(murmur2)를 "
        "파티션 수로 나눈 나머지다. 그래서 같은 키는 한 파티션에 순서대로 쌓인다.",
    ),
)
WITHOUT_KEY = Scene(
    Words("without a key: in turn, or batch by batch", "키가 없으면: 번갈아, 또는 배치 단위로"),
    Words(
        "{count} records without a key, twice. Round robin takes the partitions in turn: each of the {partitions} partitions has "
        "{each} records, and the producer sent {requests} requests. Then as Kafka's producer does it since 2.4: it fills a batch "
        "for one partition, and takes another partition for the next batch. All {count} are in one partition, and one request "
        "was enough.",
        "키 없는 레코드 {count}개를 두 번 보낸다. 먼저 라운드 로빈으로 파티션을 번갈아 고른다. 파티션 {partitions}개에 레코드가 {each}개씩 들어가고, 프로듀서는 요청을 "
        "{requests}번 보냈다. 다음은 2.4부터의 카프카 프로듀서가 하는 방식이다. 한 파티션의 배치를 채우고, 다음 배치는 다른 파티션으로 보낸다. 레코드 {count}개가 모두 한 "
        "파티션에 있고 요청은 한 번으로 충분했다.",
    ),
)
FIVE = Scene(
    Words("five places in one partition", "한 파티션의 다섯 위치"),
    Words(
        "Node 3 is cut off, so the last {more} records are above the high watermark. Group one has read to its position "
        "{position} and has committed {committed}; the high watermark is {hw}, the log end {end}. Its lag is {lag}: the end "
        "that consumers see (the high watermark) minus the committed offset. The {more} uncommitted records do not count.",
        "노드 3의 연결을 끊어서 마지막 레코드 {more}개는 하이 워터마크 위에 있다. 첫 번째 그룹은 {position}번 위치까지 읽었고 {committed}번을 "
        "커밋했다. 하이 워터마크는 {hw}, 로그 끝은 {end}이다. 지연(lag)은 {lag}이다. 컨슈머에게 보이는 끝(하이 워터마크)에서 커밋된 오프셋을 뺀 "
        "값이며, 아직 커밋되지 않은 레코드 {more}개는 세지 않는다.",
    ),
)
TWO = Scene(
    Words("two groups do not know each other", "두 그룹은 서로를 모른다"),
    Words(
        "Group two has committed {other}, group one still {committed}: each group has offsets of its own in the topic "
        "__consumer_offsets. Now a consumer of group one dies, and another one begins at the committed offset: it reads "
        "{again} records again. A position that was not committed is forgotten: at least once.",
        "두 번째 그룹은 {other}번을 커밋했고 첫 번째 그룹은 여전히 {committed}번이다. 그룹마다 __consumer_offsets 토픽에 자기 오프셋을 따로 가진다. "
        "이제 첫 번째 그룹의 컨슈머가 죽고 다른 컨슈머가 커밋된 오프셋에서 시작하면 레코드 {again}개를 다시 읽는다. 커밋하지 않은 위치는 잊힌다. 이것이 "
        "적어도 한 번(at least once)이다.",
    ),
)
LOST = Words(
    "Nothing was lost, and {again} records were read twice. Had the consumer committed before it had worked on them, they "
    "would be lost for it instead: at most once.",
    "잃은 것은 없고 레코드 {again}개를 두 번 읽었다. 처리하기 전에 먼저 커밋했다면 두 번 읽는 대신 잃었을 것이다. 이것이 최대 한 번(at most "
    "once)이다.",
)
MISTAKE = Words(
    "Texts send records without a key round robin. Since 2.4 Kafka's producer fills a batch for one partition and then takes "
    "another (KIP-480, KIP-794), which spreads as well with fewer requests. A text takes lag as the log end minus the current "
    "offset: tools ask for the latest offset, and that is the high watermark.",
    "글에서는 키가 없으면 라운드 로빈으로 보낸다고 한다. 카프카 프로듀서는 2.4부터 한 파티션의 배치를 채운 뒤 다른 파티션으로 넘어간다(KIP-480, "
    "KIP-794). 요청 수를 줄이면서도 고르게 나뉜다. 또 lag을 로그 끝에서 현재 오프셋을 뺀 값이라고 하지만, 도구가 묻는 최신 오프셋은 하이 워터마크다.",
)


def script(bench: Bench) -> None:
    _keys(bench)
    _without_keys(bench)
    cluster = bench.cluster
    topic = bench.topic("lab-offsets")
    partition = TopicPartition(topic, 0)
    bench.send(topic, [f"m{number}" for number in range(COMMITTED_RECORDS)])
    bench.until(topic, lambda lanes: lanes[1].high_watermark == COMMITTED_RECORDS, "all is committed")
    with cluster.client() as client:
        groups, consumer = Groups(client), Consumer(client)
        names = [f"{topic}-one", f"{topic}-two"]
        _read(consumer, {partition: 0}, COMMITTED_RECORDS)
        groups.commit(names[0], {partition: 3})
        groups.commit(names[1], {partition: 5})
        again = _read(consumer, {partition: 3}, COMMITTED_RECORDS) - 3
        cluster.cut(1, 3)
        bench.send(topic, [f"n{number}" for number in range(MORE)], acks=1)
        consumer.poll(0.05)
        position = consumer.positions[partition]
        found = list_offsets(client, {partition: LATEST})[partition]
        lanes = {lane.node: lane for lane in bench.lanes(topic)}
        committed = groups.committed(names[0])[partition].offset
        assert isinstance(found, FoundOffset)
        seen = (committed, position, found.offset, lanes[1].high_watermark, lanes[1].log_end)
        bench.check(seen == (3, 6, 6, 6, 8), f"the places are {seen}")
        bench.show(
            FIVE,
            lanes=tuple(lanes.values()),
            more=MORE,
            position=position,
            committed=committed,
            hw=lanes[1].high_watermark,
            end=lanes[1].log_end,
            lag=found.offset - committed,
        )
        both = [groups.committed(name)[partition].offset for name in names]
        bench.check(both == [3, 5], "each group has its own offset")
        bench.show(TWO, committed=both[0], other=both[1], again=again)
    bench.lost(LOST, again=again)
    bench.mistake(MISTAKE)


def _keys(bench: Bench) -> None:
    topic = f"lab-keys-{time.time_ns() // 1_000_000 % 1_000_000_000}"
    bench.cluster.create_topic(topic, PARTITIONS, 3)
    rows: list[tuple[str, int, int]] = []
    with bench.cluster.client() as client:
        producer = Producer(client)
        for key in KEYS:
            chosen = partition_for_key(key, PARTITIONS)
            now = time.time_ns() // 1_000_000
            offset = producer.send(TopicPartition(topic, chosen), [(now, key, b"value", ())])
            rows.append((key.decode(), chosen, offset))
    stored = {(record.key or b"").decode(): record.partition for record in bench.cluster.records(topic)}
    bench.check(stored == {key: chosen for key, chosen, _ in rows}, "each key is in one partition")
    table = "\n".join(f"{key:<6}   {chosen:>9}   {offset:>6}" for key, chosen, offset in rows)
    heading = Words("  key      partition   offset", "  키       파티션      오프셋")
    bench.show(BY_KEY, files=((heading, table),), count=len(rows), partitions=PARTITIONS)


def _without_keys(bench: Bench) -> None:
    """Round robin, and one batch for one partition: how the records are spread, and the requests that it took."""
    stamp = time.time_ns() // 1_000_000
    spread: list[Counter[int]] = []
    count = len(KEYS)
    for name, batches in (
        ("lab-in-turn", [(number % PARTITIONS, 1) for number in range(count)]),
        ("lab-by-batch", [(1, count)]),
    ):
        topic = f"{name}-{stamp % 1_000_000_000}"
        bench.cluster.create_topic(topic, PARTITIONS, 3)
        with bench.cluster.client() as client:
            for chosen, size in batches:
                Producer(client).send(TopicPartition(topic, chosen), [(stamp, None, b"value", ())] * size)
        spread.append(Counter(record.partition for record in bench.cluster.records(topic)))
    in_turn, by_batch = spread
    bench.check(set(in_turn.values()) == {count // PARTITIONS} and len(in_turn) == PARTITIONS, f"in turn: {in_turn}")
    bench.check(by_batch == {1: count}, f"by batch: {by_batch}")
    rows = [f"{partition:>9}   {in_turn[partition]:>11}   {by_batch[partition]:>8}" for partition in range(PARTITIONS)]
    heading = Words("  partition   round robin   by batch", "  파티션      라운드 로빈   배치 단위")
    bench.show(
        WITHOUT_KEY,
        files=((heading, "\n".join(rows)),),
        count=count,
        partitions=PARTITIONS,
        each=count // PARTITIONS,
        requests=count,
    )


def _read(consumer: Consumer, positions: Mapping[TopicPartition, int], end: int) -> int:
    """Reads to this offset, as far as consumers may, and returns the position."""
    consumer.assign(positions)
    deadline = time.monotonic() + 60
    while (at := max(consumer.positions.values())) < end and time.monotonic() < deadline:
        consumer.poll(0.2)
    return at


EXPERIMENT = Experiment(
    "keys-and-offsets",
    Words("Keys, two groups, and five places in a partition", "키와 두 그룹, 그리고 한 파티션의 다섯 위치"),
    script,
)
