"""Sends the same question to the leader of every partition, even if leaders change meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from highwater.client.client import FIRST_BACKOFF, LAST_BACKOFF, Client
from highwater.client.failures import Disconnected, RequestTimeout
from highwater.errors import Code, KafkaError, is_retriable
from highwater.model import NodeId, TopicPartition

V = TypeVar("V")
Answers = Mapping[TopicPartition, V | KafkaError]
Question = Callable[[NodeId, list[TopicPartition]], Answers[V]]


def ask_leaders(
    client: Client, partitions: Iterable[TopicPartition], question: Question[V], *, await_topic: bool = False
) -> dict[TopicPartition, V | KafkaError]:
    """Sends `question` to each leader for its partitions, and repeats it after retriable errors. If the client's
    timeout is over, a partition without a good response keeps its last error."""
    begun = time.monotonic()
    deadline = begun + client.timeout
    answers: dict[TopicPartition, V | KafkaError] = {}
    pending = list(dict.fromkeys(partitions))
    backoff = FIRST_BACKOFF
    while True:
        answers.update(_one_round(client, pending, question))
        pending = [partition for partition in pending if _unsettled(answers[partition], await_topic)]
        if not pending or time.monotonic() + backoff > deadline:
            return answers
        for partition in pending:
            client.forget(partition.topic)
            failed = answers[partition]
            assert isinstance(failed, KafkaError)
            client.on_delay(failed, time.monotonic() - begun)
        time.sleep(backoff)
        backoff = min(backoff * 2, LAST_BACKOFF)


def _one_round(
    client: Client, partitions: list[TopicPartition], question: Question[V]
) -> dict[TopicPartition, V | KafkaError]:
    answers: dict[TopicPartition, V | KafkaError] = {}
    by_leader: dict[NodeId, list[TopicPartition]] = {}
    for partition in partitions:
        try:
            by_leader.setdefault(client.leader(partition), []).append(partition)
        except KafkaError as error:
            answers[partition] = error
    for leader, led in by_leader.items():
        try:
            answers.update(question(leader, led))
        except (Disconnected, RequestTimeout) as failure:
            lost = KafkaError(Code.NETWORK_EXCEPTION, str(failure))
            answers.update(dict.fromkeys(led, lost))
        except KafkaError as error:
            answers.update(dict.fromkeys(led, error))
        for partition in led:
            answers.setdefault(partition, KafkaError(Code.UNKNOWN_SERVER_ERROR, f"no answer for {partition}"))
    return answers


def _unsettled(answer: V | KafkaError, await_topic: bool) -> bool:
    if not isinstance(answer, KafkaError) or not is_retriable(answer.code):
        return False
    return await_topic or answer.code not in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID)
