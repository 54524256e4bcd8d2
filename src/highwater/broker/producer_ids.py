"""Producer ids for this broker's clients, from blocks that the controller allocates (KIP-730)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from highwater.broker.controller_channel import ControllerChannel
from highwater.errors import Code, code_of
from highwater.model import NodeId
from highwater.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from highwater.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

WAIT_SECONDS = 60.0
RETRY_SECONDS = 0.05
PREFETCH_AT = 0.9
"""The share of a block that is used up when the next block is asked for."""
_log = logging.getLogger(__name__)


class ProducerIds:
    """Every id is given to one client only. After a crash the rest of a block is never used.

    No request waits for the controller: if there is no id, the client gets a retriable error.
    """

    def __init__(
        self,
        node: NodeId,
        controller: ControllerChannel,
        broker_epoch: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._node = node
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._monotonic = monotonic
        self._block = range(0)
        """The rest of the block in use."""
        self._prefetch_at = 0
        self._following: range | None = None
        self._asking = False
        self._not_before = 0.0

    def take(self) -> int | None:
        """None if all ids are used up and the controller has not allocated more yet."""
        if not self._block and self._following is not None:
            self._use(self._following)
        if not self._block:
            self.prefetch()
            return None
        given = self._block[0]
        self._block = self._block[1:]
        if given == self._prefetch_at:
            self.prefetch()
        return given

    def _use(self, block: range) -> None:
        self._block, self._following = block, None
        self._prefetch_at = block.start + int(len(block) * PREFETCH_AT)

    def prefetch(self) -> None:
        """Asks the controller for the next block, unless it is here or already asked for."""
        if self._asking or self._following is not None or self._monotonic() < self._not_before:
            return
        self._asking = True
        request = AllocateProducerIdsRequest(broker_id=self._node, broker_epoch=self._broker_epoch())
        self._controller.ask(request, AllocateProducerIdsResponse, self._answered, WAIT_SECONDS)

    def _answered(self, answer: AllocateProducerIdsResponse | None) -> None:
        self._asking = False
        if answer is None:
            _log.warning("no controller gave producer ids within %d s", WAIT_SECONDS)
            return
        block = range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
        if answer.error_code != Code.NONE or not block or block.start < self._block.stop:
            _log.error("no producer ids: %s, %s after %s", code_of(answer.error_code).name, block, self._block)
            self._not_before = self._monotonic() + RETRY_SECONDS
            return
        self._following = block
