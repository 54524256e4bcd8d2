"""Producer ids for this broker's clients, drawn from blocks that the controller gives out (KIP-730)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from highwater.broker.controller_channel import ControllerChannel
from highwater.errors import Code
from highwater.model import NodeId
from highwater.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from highwater.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

WAIT_SECONDS = 60.0
Told = Callable[[int | None], None]


class ProducerIds:
    """Every id is given to one client only. A block that a crash cuts short is never used again."""

    def __init__(self, node: NodeId, controller: ControllerChannel, broker_epoch: Callable[[], int]) -> None:
        self._node = node
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._waiting: deque[Told] = deque()
        self._asking = False

    def take(self, told: Told) -> None:
        """`told` the id, or None if the controller gave none in time: the client tries again."""
        self._waiting.append(told)
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._next < self._end:
            self._next += 1
            self._waiting.popleft()(self._next - 1)
        if self._waiting and not self._asking:
            self._asking = True
            request = AllocateProducerIdsRequest(broker_id=self._node, broker_epoch=self._broker_epoch())
            self._controller.ask(request, AllocateProducerIdsResponse, self._answered, WAIT_SECONDS)

    def _answered(self, answer: AllocateProducerIdsResponse | None) -> None:
        self._asking = False
        if answer is None or answer.error_code != Code.NONE:
            waiting, self._waiting = self._waiting, deque()
            for told in waiting:
                told(None)
            return
        self._next = answer.producer_id_start
        self._end = answer.producer_id_start + answer.producer_id_len
        self._serve()
