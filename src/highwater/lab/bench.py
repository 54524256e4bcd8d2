"""What an experiment does to its cluster and sees of it, and the frames that come of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, TypeVar

from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.producer import Producer
from highwater.cluster import Cluster
from highwater.errors import KafkaError
from highwater.lab.frame import Fact, Fetch, Frame, Heading, Lane, Read, Scene, Words
from highwater.model import TopicPartition

T = TypeVar("T")
WAIT_SECONDS: Final = 60.0
HELD_SECONDS: Final = 3.0
"""How long an attempt waits for a record that a fetch, which waits at the leader, must bring."""
ATTEMPTS: Final = 20
REFUSED_SECONDS: Final = 1.0
"""How long a write that shall be refused is tried again."""
CONFIG: Final = {
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}
"""Kafka's defaults are made for days; an experiment is made for a minute. Only times differ."""


class NotSeen(Exception):
    """What the experiment narrates did not happen."""


class Bench:
    """The cluster has three brokers, and three controllers of their own: so any broker can be killed."""

    def __init__(self, cluster: Cluster, show: Callable[[Frame], None]) -> None:
        self.cluster = cluster
        self._show = show
        self._last: dict[tuple[str, int], Lane] = {}

    @classmethod
    def new_cluster(cls) -> Cluster:
        return Cluster(brokers=3, controllers=3, config=CONFIG)

    @contextlib.contextmanager
    def beside(self, racks: Sequence[str] | None = None, **config: str) -> Iterator[Bench]:
        """A second cluster with other settings, for as long as it is needed; with `racks`, a broker for each."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        brokers = 3 if racks is None else len(racks)
        with Cluster(brokers=brokers, controllers=1, config={**CONFIG, **settings}, racks=racks) as cluster:
            yield Bench(cluster, self._show)

    # --- acting

    def topic(self, name: str, replicas: Sequence[int] = (1, 2, 3), **config: str) -> str:
        """The first replica leads. The name is free again after an earlier run."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        made = f"{name}-{time.time_ns() // 1_000_000 % 1_000_000_000}"
        self.cluster.create_topic(made, config=settings, assignment=[list(replicas)])
        self.cluster.wait_for_isr(made, 0, len(replicas))
        return made

    def send(self, topic: str, values: Sequence[str], acks: int = -1, seconds: float = WAIT_SECONDS) -> int:
        """One record after the other. Returns the last offset; with acks=0 no broker tells one."""
        offset = -1
        with self.cluster.client(seconds) as client:
            producer = Producer(client, acks=acks, idempotent=False)
            for value in values:
                offset = producer.send(TopicPartition(topic, 0), [(self._now(), None, value.encode(), ())])
        return offset

    def send_batch(self, topic: str, count: int, acks: int = 1) -> int:
        """All in one batch. Returns the first offset."""
        records = [(self._now(), None, b"%d" % number, ()) for number in range(count)]
        with self.cluster.client() as client:
            return Producer(client, acks=acks, idempotent=False).send(TopicPartition(topic, 0), records)

    def sending(self, topic: str, value: str, acks: int = -1) -> Future[int]:
        """In a thread: the future has the acknowledged offset, or the error of a producer that does not try again."""
        sent: Future[int] = Future()
        client = self.cluster.client()
        client.leader(TopicPartition(topic, 0))
        client.timeout = 0.0

        def send() -> None:
            try:
                sent.set_result(self._once(client, topic, value, acks))
            except Exception as failed:  # noqa: BLE001 it belongs to whoever asks for the result
                sent.set_exception(failed)
            finally:
                client.close()

        threading.Thread(target=send, name="lab-producer", daemon=True).start()
        return sent

    def _once(self, client: Client, topic: str, value: str, acks: int) -> int:
        producer = Producer(client, acks=acks, idempotent=False)
        records = [(self._now(), None, value.encode(), ())]
        return producer.send(TopicPartition(topic, 0), records)

    def refusal(self, topic: str, value: str, acks: int = -1) -> str:
        """The error of a write that is not taken, tried for a moment."""
        try:
            self.send(topic, [value], acks, REFUSED_SECONDS)
        except KafkaError as refused:
            return refused.code.name
        except ClientFailure as failed:
            return type(failed).__name__
        raise NotSeen(f"a write to {topic} was acknowledged; it should have been refused")

    def values(self, topic: str) -> list[str]:
        """What a consumer reads."""
        return [(record.value or b"").decode() for record in self.cluster.records(topic)]

    @staticmethod
    def _now() -> int:
        return time.time_ns() // 1_000_000

    def caught(self, attempt: Callable[[], T]) -> T:
        """The result of an attempt that shows nothing and makes its own topic.

        It holds links while a fetch of each follower waits at the leader, so that this fetch brings a record. On a busy
        machine the fetch may have ended before the record is written. Then the attempt is made again.
        """
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(NotSeen):
                return attempt()
            self.cluster.heal()
        return attempt()

    # --- seeing

    def lanes(self, topic: str) -> tuple[Lane, ...]:
        view = self.cluster.partition(topic, 0)
        limit_ms = int(CONFIG["replica.lag.time.max.ms"])
        told = {node: self._told(topic, node) for node in view.replicas}
        leader = told.get(-1 if view.leader is None else view.leader) or {}
        lags = {each["id"]: each for each in leader.get("followers", ())}
        lanes = []
        for node in view.replicas:
            row, in_isr = told[node], node in view.isr
            state = self.cluster.state(node)
            if row is not None:
                lag = lags.get(node, {})
                self._last[topic, node] = Lane(
                    node,
                    state,
                    view.leader == node,
                    view.leader_epoch,
                    row["log_start"],
                    row["high_watermark"],
                    row["log_end"],
                    tuple((each["epoch"], each["start"]) for each in row["epochs"]),
                    in_isr,
                    lag.get("lag") or 0,
                    lag.get("lag_ms", 0),
                    limit_ms if lag and not in_isr else 0,
                )
            last = self._last.get((topic, node)) or Lane(node, state, False, -1, 0, 0, 0, (), in_isr)
            lanes.append(replace(last, state=state, is_leader=view.leader == node, in_isr=in_isr))
        return tuple(lanes)

    def _told(self, topic: str, node: int) -> dict[str, Any] | None:
        if self.cluster.state(node) != "up":
            return None
        with contextlib.suppress(ConnectionError, ValueError):
            return self.cluster.replica(node, topic, 0)
        return None

    def fetches(self, topic: str, last: int) -> tuple[Fetch, ...]:
        """The last fetches that the leader has answered with news."""
        leader = self.cluster.leader(topic, 0)
        row = None if leader is None else self.cluster.replica(leader, topic, 0)
        rows = [] if row is None else row["follower_fetches"][-last:]
        begun = rows[0]["seconds_ago"] if rows else 0.0
        return tuple(
            Fetch(round((begun - each["seconds_ago"]) * 1000, 1), each["follower"], each["offset"],
                  each["high_watermark"], each["bytes"])
            for each in rows
        )  # fmt: skip

    def until(
        self, topic: str, condition: Callable[[dict[int, Lane]], bool], what: str, seconds: float = WAIT_SECONDS
    ) -> dict[int, Lane]:
        """Waits until the lanes are so, and returns them. Raises NotSeen."""
        deadline = time.monotonic() + seconds
        while True:
            lanes = {lane.node: lane for lane in self.lanes(topic)}
            if condition(lanes):
                return lanes
            if time.monotonic() > deadline:
                raise NotSeen(f"not within {seconds:g} s: {what}; the lanes: {lanes}")
            time.sleep(0.005)

    def wait_for_isr(self, topic: str, wanted: int | Collection[int]) -> None:
        """Waits until the controller has decided it, and the leader works by it."""
        isr = self.cluster.wait_for_isr(topic, 0, wanted)

        def is_applied() -> bool:
            leader = self.cluster.leader(topic, 0)
            row = None if leader is None else self._told(topic, leader)
            return row is not None and set(row.get("isr", ())) == isr

        self.cluster.wait_until(is_applied, what=f"the leader of {topic} works with ISR {isr}")

    @staticmethod
    def check(holds: object, what: str) -> None:
        if not holds:
            raise NotSeen(what)

    # --- showing

    def show(
        self,
        scene: Scene,
        topic: str | None = None,
        *,
        lanes: Sequence[Lane] | None = None,
        fetches: Sequence[Fetch] = (),
        reads: Sequence[Read] = (),
        files: Sequence[tuple[Heading, str]] = (),
        **facts: Fact,
    ) -> Frame:
        """The lanes of this moment, unless they were taken before."""
        seen = lanes if lanes is not None else () if topic is None else self.lanes(topic)
        frame = Frame(scene.title, scene.text, facts, tuple(seen), tuple(fetches), tuple(reads), tuple(files))
        self._show(frame)
        return frame

    def lost(self, text: Words, **facts: Fact) -> None:
        self._show(Frame(Words("", ""), text, facts, kind="lost"))

    def mistake(self, text: Words, **facts: Fact) -> None:
        self._show(Frame(Words("", ""), text, facts, kind="mistake"))
