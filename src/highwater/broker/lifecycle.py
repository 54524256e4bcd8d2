"""A broker's standing with the controller: registered, fenced until it has caught up, heard from, let go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum

from highwater.broker.controller_channel import ControllerChannel
from highwater.config import (
    BROKER_HEARTBEAT_INTERVAL_MS,
    BROKER_RACK,
    BROKER_SESSION_TIMEOUT_MS,
    INITIAL_BROKER_REGISTRATION_TIMEOUT_MS,
    NodeConfig,
)
from highwater.config import Listener as ConfiguredListener
from highwater.errors import Code, code_of
from highwater.metadata.registration import VersionRange
from highwater.model import Endpoint, Uuid
from highwater.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from highwater.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from highwater.world import Timer, World

RETRY_SECONDS = 0.1
_FINAL = (
    Code.INCONSISTENT_CLUSTER_ID,
    Code.INVALID_REGISTRATION,
    Code.UNSUPPORTED_VERSION,
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.BROKER_ID_NOT_REGISTERED,
)
"""Why a controller does not take a broker in until somebody changes one of the two."""
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
_log = logging.getLogger(__name__)
_state_change_log = logging.getLogger("highwater.state_change")


class NotRegistered(Exception):
    """The controller does not take this broker in; why is for whoever started it."""


class Standing(Enum):
    STARTING = "starting"
    FENCED = "fenced"
    ACTIVE = "active"
    LEAVING = "leaving"
    GONE = "gone"


class Lifecycle:
    """Heartbeats have a connection of their own, so that no other request can delay them."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        cluster_id: str,
        incarnation: Uuid,
        directory: Uuid,
        features: dict[str, VersionRange],
        controller: ControllerChannel,
        applied_offset: Callable[[], int],
    ) -> None:
        self._world = world
        self._config = config
        self._cluster_id = cluster_id
        self.incarnation = incarnation
        self._directory = directory
        self._features = features
        self._controller = controller
        self._applied_offset = applied_offset
        self.epoch = -1
        self.standing = Standing.STARTING
        self.answered_at = world.clock.monotonic()
        """When a controller last answered a heartbeat, or was first asked to let us go."""
        self._timer: Timer | None = None
        self._asking = False
        self._waiting: list[tuple[Standing, asyncio.Future[None]]] = []

    async def register(
        self, listeners: Sequence[ConfiguredListener], bound: dict[str, Endpoint], previous_epoch: int
    ) -> None:
        """Until the controller takes us in. DUPLICATE_BROKER_REGISTRATION passes once the old session has expired, and
        what befell the controller may pass, too.

        NotRegistered if it refuses, or says nothing for initial.broker.registration.timeout.ms.
        """
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self.incarnation,
            listeners=[_listener(each, bound[each.name]) for each in listeners],
            features=[
                Feature(name=name, min_supported_version=supported.min, max_supported_version=supported.max)
                for name, supported in sorted(self._features.items())
            ],
            rack=self._config.get(BROKER_RACK),
            log_dirs=[self._directory],
            previous_broker_epoch=previous_epoch,
        )
        patience = self._config.get(INITIAL_BROKER_REGISTRATION_TIMEOUT_MS)
        try:
            async with asyncio.timeout(patience / 1000):
                await self._registered(request)
        except TimeoutError as late:
            why = f"within initial.broker.registration.timeout.ms={patience}"
            raise NotRegistered(f"no controller took this broker in {why}") from late

    async def _registered(self, request: BrokerRegistrationRequest) -> None:
        while True:
            answer = await self._ask_registration(request)
            if answer is not None and answer.error_code == Code.NONE:
                self.epoch = answer.broker_epoch
                self._set(Standing.FENCED, f"registered with epoch {self.epoch}")
                self._beat()
                return
            if answer is not None:
                code = code_of(answer.error_code)
                if code in _FINAL:
                    raise NotRegistered(f"the controller refuses this broker: {code.name}")
                if code is Code.DUPLICATE_BROKER_REGISTRATION:
                    _log.warning("a broker with this id is still registered; trying again")
                else:
                    _log.warning("the controller did not take this broker in: %s; trying again", code.name)
            await asyncio.sleep(RETRY_SECONDS)

    async def _ask_registration(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse | None:
        answered: asyncio.Future[BrokerRegistrationResponse | None] = asyncio.get_running_loop().create_future()
        seconds = self._config.get(BROKER_SESSION_TIMEOUT_MS) / 1000
        self._controller.ask(
            request,
            BrokerRegistrationResponse,
            lambda answer: None if answered.done() else answered.set_result(answer),
            seconds,
        )
        return await answered

    async def reached(self, standing: Standing) -> None:
        if self.standing is standing:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((standing, future))
        self.nudge()
        await future

    def nudge(self) -> None:
        """Something changed that the controller waits for: do not let it wait for the next beat."""
        if self.standing in (Standing.FENCED, Standing.LEAVING) and self.epoch >= 0:
            self._beat()

    def controller_moved(self) -> None:
        """Be heard at once: a controller that has never heard us has no connection to lose when we die."""
        self._controller.controller_moved()
        if self.epoch >= 0:
            self._beat()

    def leave(self) -> None:
        """Ask for a controlled shutdown; GONE once the controller agrees."""
        if self.standing in (Standing.FENCED, Standing.ACTIVE):
            self._set(Standing.LEAVING, "it is being stopped")
            self.answered_at = self._world.clock.monotonic()
            self._beat()

    def stop(self) -> None:
        self._set(Standing.GONE, "it stops")
        if self._timer is not None:
            self._timer.cancel()
        self._controller.close()

    def _beat(self) -> None:
        if self._asking or self.standing is Standing.GONE:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._asking = True
        with self._world.failures.boundary("periodic", "the heartbeat", lambda _: self._beaten(None)):
            request = BrokerHeartbeatRequest(
                broker_id=self._config.node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=self._applied_offset(),
                want_fence=False,
                want_shut_down=self.standing is Standing.LEAVING,
            )
            seconds = self._config.get(BROKER_SESSION_TIMEOUT_MS) / 1000
            self._controller.ask(request, BrokerHeartbeatResponse, self._beaten, seconds)

    def _beaten(self, answer: BrokerHeartbeatResponse | None) -> None:
        self._asking = False
        interval: float | None = RETRY_SECONDS
        with self._world.failures.boundary("periodic", "the answer to a heartbeat"):
            interval = self._take(answer)
        if interval is not None:
            self._timer = self._world.clock.call_later(interval, self._beat)

    def _take(self, answer: BrokerHeartbeatResponse | None) -> float | None:
        """Seconds to the next heartbeat; None where there is none."""
        if self.standing is Standing.GONE:
            return None
        if answer is None:
            return RETRY_SECONDS
        self.answered_at = self._world.clock.monotonic()
        interval = self._config.get(BROKER_HEARTBEAT_INTERVAL_MS) / 1000
        if answer.error_code != Code.NONE:
            _log.warning("heartbeat: %s", code_of(answer.error_code).name)
        elif self.standing is Standing.LEAVING:
            if answer.should_shut_down:
                self._set(Standing.GONE, "the controller let it go")
                return None
            interval = 0.05
        else:
            standing = Standing.FENCED if answer.is_fenced else Standing.ACTIVE
            self._set(standing, "so the controller answered its heartbeat")
            if answer.is_fenced:
                interval = 0.05
        return interval

    def _set(self, standing: Standing, why: str) -> None:
        if standing is not self.standing:
            change = f"{self.standing.value} -> {standing.value}"
            _state_change_log.info("broker %d %s: %s", self._config.node_id, change, why)
        self.standing = standing
        waiting, self._waiting = self._waiting, []
        for wanted, future in waiting:
            if wanted is not standing:
                self._waiting.append((wanted, future))
            elif not future.done():
                future.set_result(None)


def _listener(listener: ConfiguredListener, bound: Endpoint) -> Listener:
    return Listener(
        name=listener.name,
        host=listener.endpoint.host or bound.host,
        port=listener.endpoint.port or bound.port,
        security_protocol=SECURITY_PROTOCOLS[listener.protocol],
    )
