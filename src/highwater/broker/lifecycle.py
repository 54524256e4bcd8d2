"""The registration of a broker with the controller, its heartbeats, and its controlled shutdown."""

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
COMPLAIN_SECONDS = 3.0
"""How long a broker waits to be registered before it logs why it is not."""
_FINAL = (
    Code.INCONSISTENT_CLUSTER_ID,
    Code.INVALID_REGISTRATION,
    Code.UNSUPPORTED_VERSION,
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.BROKER_ID_NOT_REGISTERED,
)
"""Errors after which another attempt cannot help: an operator must change the broker or the cluster."""
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
_log = logging.getLogger(__name__)
_state_change_log = logging.getLogger("highwater.state_change")


class NotRegistered(Exception):
    """The controller does not register this broker. The message gives the reason."""


class LifecycleState(Enum):
    STARTING = "starting"
    FENCED = "fenced"
    ACTIVE = "active"
    LEAVING = "leaving"
    GONE = "gone"


class Lifecycle:
    """Heartbeats have their own connection, so that no other request can delay them."""

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
        self._refused_with: Code | None = None
        """The error of the last answer to a registration; None if there was no answer."""
        self.state = LifecycleState.STARTING
        self.answered_at = world.clock.monotonic()
        """When a controller last answered a heartbeat, or when the controlled shutdown began."""
        self._timer: Timer | None = None
        self._asking = False
        self._waiting: list[tuple[LifecycleState, asyncio.Future[None]]] = []

    async def register(
        self, listeners: Sequence[ConfiguredListener], bound: dict[str, Endpoint], previous_epoch: int
    ) -> None:
        """Tries until the controller has registered this broker. DUPLICATE_BROKER_REGISTRATION ends when the old
        session has expired, and other errors of the controller may pass, too.

        Raises NotRegistered if the controller refuses, or does not answer for initial.broker.registration.timeout.ms.
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
        complaint = self._world.clock.call_later(COMPLAIN_SECONDS, self._complain)
        try:
            async with asyncio.timeout(patience / 1000):
                await self._registered(request)
        except TimeoutError as late:
            why = f"within initial.broker.registration.timeout.ms={patience}"
            raise NotRegistered(f"no controller registered this broker {why}: {self._why_not()}") from late
        finally:
            complaint.cancel()

    def _complain(self) -> None:
        _log.warning("this broker is not registered yet: %s", self._why_not())

    def _why_not(self) -> str:
        if self._refused_with is not None:
            return f"the controller answers {self._refused_with.name} ({self._refused_with.description})"
        return self._controller.why_silent

    async def _registered(self, request: BrokerRegistrationRequest) -> None:
        while True:
            answer = await self._ask_registration(request)
            if answer is not None and answer.error_code == Code.NONE:
                self.epoch = answer.broker_epoch
                self._set(LifecycleState.FENCED, f"registered with epoch {self.epoch}")
                self._beat()
                return
            self._refused_with = None if answer is None else code_of(answer.error_code)
            if self._refused_with is not None:
                code = self._refused_with
                if code in _FINAL:
                    raise NotRegistered(f"the controller refuses this broker: {code.name}")
                if code is Code.DUPLICATE_BROKER_REGISTRATION:
                    _log.warning("a broker with this id is still registered; trying again")
                elif self._world.failures.is_news(line := f"the controller did not register this broker: {code.name}"):
                    _log.warning("%s (%s); trying again", line, code.description)
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

    async def reached(self, state: LifecycleState) -> None:
        if self.state is state:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((state, future))
        self.nudge()
        await future

    def nudge(self) -> None:
        """Sends a heartbeat at once: the controller waits for what has changed."""
        if self.state in (LifecycleState.FENCED, LifecycleState.LEAVING) and self.epoch >= 0:
            self._beat()

    def controller_moved(self) -> None:
        """Sends a heartbeat to the new controller at once. Without a connection it could not notice our death early."""
        self._controller.controller_moved()
        if self.epoch >= 0:
            self._beat()

    def leave(self) -> None:
        """Asks for a controlled shutdown. The state is GONE when the controller agrees."""
        if self.state in (LifecycleState.FENCED, LifecycleState.ACTIVE):
            self._set(LifecycleState.LEAVING, "it is being stopped")
            self.answered_at = self._world.clock.monotonic()
            self._beat()

    def stop(self) -> None:
        self._set(LifecycleState.GONE, "it stops")
        if self._timer is not None:
            self._timer.cancel()
        self._controller.close()

    def _beat(self) -> None:
        if self._asking or self.state is LifecycleState.GONE:
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
                want_shut_down=self.state is LifecycleState.LEAVING,
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
        """Seconds until the next heartbeat; None if there is none."""
        if self.state is LifecycleState.GONE:
            return None
        if answer is None:
            return RETRY_SECONDS
        self.answered_at = self._world.clock.monotonic()
        interval = self._config.get(BROKER_HEARTBEAT_INTERVAL_MS) / 1000
        if answer.error_code != Code.NONE:
            _log.warning("heartbeat: %s", code_of(answer.error_code).name)
        elif self.state is LifecycleState.LEAVING:
            if answer.should_shut_down:
                self._set(LifecycleState.GONE, "the controller let it go")
                return None
            interval = 0.05
        else:
            state = LifecycleState.FENCED if answer.is_fenced else LifecycleState.ACTIVE
            self._set(state, "so the controller answered its heartbeat")
            if answer.is_fenced:
                interval = 0.05
        return interval

    def _set(self, state: LifecycleState, why: str) -> None:
        if state is not self.state:
            change = f"{self.state.value} -> {state.value}"
            _state_change_log.info("broker %d %s: %s", self._config.node_id, change, why)
        self.state = state
        waiting, self._waiting = self._waiting, []
        for wanted, future in waiting:
            if wanted is not state:
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
