"""The life of a node's broker: how it joins the cluster, what it is notified of, and how it leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from highwater.broker.broker import Broker
from highwater.broker.lifecycle import LifecycleState
from highwater.broker.publisher import Publisher
from highwater.broker.upkeep import Upkeep
from highwater.config import NodeConfig
from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage, difference
from highwater.net.server import Server

SHUTDOWN_SECONDS = 10.0
ABANDONED_SECONDS = 1.5
HELD_AFTER_SECONDS = 0.5
"""If recovery takes longer than this, the broker listens: ApiVersions is answered at once, all else after recovery."""
_log = logging.getLogger(__name__)


class BrokerRole:
    def __init__(self, config: NodeConfig, broker: Broker) -> None:
        self._config = config
        self.broker = broker
        self.publisher = Publisher(broker, self._image_applied)
        self.upkeep = Upkeep(broker)
        self._publishing: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._applied = asyncio.Event()

    # Joining

    async def open_logs(
        self, committed: Callable[[], MetadataImage], server: Server, progress: Callable[[], None]
    ) -> None:
        """Opens the logs and gives them their roles by the newest metadata, which `committed` returns. `progress` is
        called meanwhile.

        Connections are refused while the logs are opened. So clients try other brokers at once, and the controller has
        the proof that the last process of this broker is dead. If recovery takes longer, the broker listens but holds
        requests.
        """
        world = self.broker.world
        patience = world.clock.call_later(HELD_AFTER_SECONDS, self._listen, server)
        image = committed()
        await self.publisher.begin(image, progress)
        patience.cancel()
        self.publisher.offer(committed(), difference(image, committed()))
        self._publishing = world.spawn("publisher", self.publisher.run())
        self._listen(server)

    def _listen(self, server: Server) -> None:
        if self._listening is None:
            names = (each.name for each in self._config.broker_listeners)
            self._listening = self.broker.world.spawn("listeners", server.start(*names))

    async def join(self, server: Server) -> None:
        """Registers, waits until the broker is unfenced, and applies the roles that the controller then gives it."""
        broker = self.broker
        assert self._listening is not None, "the logs come first"
        await self._listening
        previous = broker.store.found.broker_epoch
        await broker.lifecycle.register(self._config.advertised_listeners, server.endpoints, previous)
        broker.producer_ids.prefetch()
        await broker.lifecycle.reached(LifecycleState.ACTIVE)
        while not broker.metadata.image.brokers.is_active(broker.node_id):
            # The decision that unfenced this broker is not applied yet. It also gives the broker its leaderships.
            self._applied.clear()
            await self._applied.wait()
        self.upkeep.start()
        broker.cleaner.start()

    # Callbacks

    def committed(self, image: MetadataImage, changes: Changes) -> None:
        if self._publishing is not None:  # else `open_logs` takes the newest image when the logs are open
            self.publisher.offer(image, changes)

    def controller_moved(self) -> None:
        self.broker.controller.controller_moved()
        self.broker.lifecycle.controller_moved()

    def _image_applied(self) -> None:
        self._applied.set()
        if self._publishing is not None:
            self.broker.lifecycle.nudge()

    # Leaving

    async def leave(self, controlled: bool) -> None:
        """If the shutdown is `controlled`, the controller moves leaderships away and fences the broker first."""
        broker = self.broker
        if controlled:
            await self._ask_to_leave()
        broker.groups.stop()
        self.upkeep.stop()
        await broker.cleaner.close()
        broker.lifecycle.stop()
        if self._publishing is not None:
            self._publishing.cancel()
        broker.fetchers.close()

    async def _ask_to_leave(self) -> None:
        lifecycle = self.broker.lifecycle
        if lifecycle.state is LifecycleState.STARTING:
            return
        lifecycle.leave()
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                while lifecycle.state is not LifecycleState.GONE and not self._is_abandoned():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            _log.warning("the controller did not agree to the shutdown in time")

    def _is_abandoned(self) -> bool:
        """Whether no controller has answered for a while, so that none can agree to the shutdown."""
        return self.broker.world.clock.monotonic() - self.broker.lifecycle.answered_at > ABANDONED_SECONDS

    async def close(self) -> None:
        """Closes the logs cleanly, when no request can come any more."""
        self.broker.controller.close()
        epoch = self.broker.lifecycle.epoch
        if epoch < 0:  # this process never registered, so it has written nothing: the last mark is still valid
            epoch = self.broker.store.found.broker_epoch
        await self.broker.store.close(epoch)
