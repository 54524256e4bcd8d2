"""Requests of one record each, many in flight on one connection: what a broker's request path costs by itself.

A raw socket, because the request is built once and sent over and over: the client costs next to nothing.
"""

from __future__ import annotations

import socket
import time
from struct import Struct

from bench.systems import System
from bench.workloads import Sample, cost_of
from highwater.client import Client
from highwater.errors import Code, is_retriable
from highwater.model import TopicPartition
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.records import build

IN_FLIGHT = 64
PATIENCE_SECONDS = 10.0
VERSION = 11
"""Of Produce: the newest but those for transactions and topic ids."""
_HEADER = Struct(">ihhih")
_SIZE = Struct(">i")


def pipelined(system: System, topic: str, requests: int) -> Sample:
    """Requests per second with acks=all."""
    with Client(system.bootstrap) as client:
        leader = client.leader(TopicPartition(topic, 0))
        endpoint = client.view.brokers[leader].endpoint
    with socket.create_connection(endpoint, 30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = _request(topic)
        size = _answer_size(connection, request)
        with cost_of(system) as cost:
            _exchange(connection, request, size, requests)
    return cost.per_million(requests / cost.seconds, requests)


def _request(topic: str) -> bytes:
    batch = bytes(build([(int(time.time() * 1000), None, b"x" * 100, ())]))
    partition = PartitionProduceData(index=0, records=batch)
    data = TopicProduceData(name=topic, partition_data=[partition])
    body = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]).encode(VERSION)
    client_id = b"bench"
    return _HEADER.pack(10 + len(client_id) + 1 + len(body), 0, VERSION, 7, len(client_id)) + client_id + b"\0" + body


def _answer_size(connection: socket.socket, request: bytes) -> int:
    """That of the first good answer: all that follow are like it but for the offset.

    A leader that was told to us may not have heard of it yet itself.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        connection.sendall(request)
        frame = connection.recv(1 << 16)
        (size,) = _SIZE.unpack_from(frame)
        answer = ProduceResponse.decode(frame[4 + 4 + 1 :], VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        if size + 4 == len(frame) and not code:
            return len(frame)
        if not is_retriable(Code(code)) or time.monotonic() > until:
            raise RuntimeError(f"not the answer to a good request: {answer}")


def _exchange(connection: socket.socket, request: bytes, size: int, requests: int) -> None:
    connection.sendall(request * min(IN_FLIGHT, requests))
    sent, received, partial = min(IN_FLIGHT, requests), 0, 0
    buffer = bytearray(1 << 16)
    while received < requests:
        count = connection.recv_into(buffer)
        if count == 0:
            raise RuntimeError(f"the connection was closed after {received} answers")
        answers, partial = divmod(partial + count, size)
        received += answers
        more = min(answers, requests - sent)
        if more:
            connection.sendall(request * more)
            sent += more
