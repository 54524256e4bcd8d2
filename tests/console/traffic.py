"""Records that flow while a page is looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from highwater.client import Consumer, Producer
from highwater.model import TopicPartition
from tests.console.conftest import Watched


def now() -> int:
    """Older records would be deleted by retention after half a minute."""
    return time.time_ns() // 1_000_000


@contextmanager
def feed(watched: Watched, topic: str) -> Iterator[None]:
    """Records that arrive one after another, until it is left."""
    over = threading.Event()

    def send() -> None:
        with watched.stage.client() as client:
            producer = Producer(client)
            while not over.is_set():
                producer.send(TopicPartition(topic, 0), [(now(), None, b"moving", [])])

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


@contextmanager
def following(watched: Watched, topic: str) -> Iterator[None]:
    """A consumer that reads what arrives, until it is left."""
    over = threading.Event()

    def read() -> None:
        with watched.stage.client() as client:
            consumer = Consumer(client)
            consumer.assign({TopicPartition(topic, 0): 0})
            while not over.is_set():
                consumer.poll(0.2)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
