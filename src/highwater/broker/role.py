"""A node's broker: its way into the cluster, what it hears meanwhile, and its way out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from highwater.broker.broker import Broker
from highwater.broker.lifecycle import Standing
from highwater.broker.publisher import Publisher
from highwater.broker.upkeep import Upkeep
from highwater.config import NodeConfig
from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage, difference
from highwater.net.server import Server

SHUTDOWN_SECONDS = 10.0
ABANDONED_SECONDS = 1.5
HELD_AFTER_SECONDS = 0.5
"""A recovery that lasts longer is answered for: ApiVersions at once, all else when it is over."""
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

    # The way in

    async def open_logs(
        self, committed: Callable[[], MetadataImage], server: Server, progress: Callable[[], None]
    ) -> None:
        """Give what is on disk its roles by the newest metadata, which is `committed`; `progress` is called meanwhile.

        Clients are refused while the logs are opened: they go elsewhere at once, and that nothing listens here proves
        to the controller that our last life is over. A recovery that takes longer is told by a held listener.
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
        """Register, be unfenced, and take up what the controller then gives us."""
        broker = self.broker
        assert self._listening is not None, "the logs come first"
        await self._listening
        previous = broker.store.found.broker_epoch
        await broker.lifecycle.register(self._config.advertised_listeners, server.endpoints, previous)
        broker.producer_ids.prefetch()
        await broker.lifecycle.reached(Standing.ACTIVE)
        while not broker.metadata.image.brokers.is_active(broker.node_id):
            # What the controller decided when it unfenced us is still to be applied: by that we lead.
            self._applied.clear()
            await self._applied.wait()
        self.upkeep.start()
        broker.cleaner.start()

    # Meanwhile

    def committed(self, image: MetadataImage, changes: Changes) -> None:
        if self._publishing is not None:  # else `open_logs` takes the newest up once the logs are open
            self.publisher.offer(image, changes)

    def controller_moved(self) -> None:
        self.broker.controller.controller_moved()
        self.broker.lifecycle.controller_moved()

    def _image_applied(self) -> None:
        self._applied.set()
        if self._publishing is not None:
            self.broker.lifecycle.nudge()

    # The way out

    async def leave(self, controlled: bool) -> None:
        """Where the shutdown is `controlled`, the controller moves leaderships away and takes the broker out first."""
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
        if lifecycle.standing is Standing.STARTING:
            return
        lifecycle.leave()
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                while lifecycle.standing is not Standing.GONE and not self._is_abandoned():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            _log.warning("the controller did not agree to the shutdown in time")

    def _is_abandoned(self) -> bool:
        """No controller has answered for a while: there is nobody left to agree to the shutdown."""
        return self.broker.world.clock.monotonic() - self.broker.lifecycle.answered_at > ABANDONED_SECONDS

    async def close(self) -> None:
        """The logs, cleanly, once no request can come any more."""
        self.broker.controller.close()
        await self.broker.store.close(self.broker.lifecycle.epoch)
