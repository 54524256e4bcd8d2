"""One attempt to connect: the handshake over two links, its repetitions, and the ways in which it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from highwater.model import Endpoint
from highwater.sim.process import Process
from highwater.sim.transport import SimTransport
from highwater.world import ConnectionRefused, Unreachable

if TYPE_CHECKING:
    from highwater.sim.net import Network

FIRST_REPEAT = 1.0
"""Seconds until the first segment of a connection is sent again if it gets no answer. The time doubles with each
repetition, as in Linux."""


class Dialling:
    """Raises ConnectionRefused if no process listens on the machine, and Unreachable if no answer comes in time."""

    def __init__(
        self, network: Network, process: Process, factory: Callable[[], asyncio.BufferedProtocol], to: Endpoint
    ) -> None:
        self._network = network
        self._loop = network.loop
        self._factory = factory
        self._to = to
        self._transport: SimTransport | None = None
        self._deadline = self._loop.time() + network.knobs.connect_timeout
        self._repeat = FIRST_REPEAT
        self._left = False
        self.process = process
        self.waiter: asyncio.Future[SimTransport] = self._loop.create_future()

    def begin(self) -> None:
        machine, _ = self._network.find(self.process.name, self._to)
        now = self._loop.time()
        if machine is None:
            self._later(now, self.fail, Unreachable(f"no machine has the address {self._to}"))
        else:
            self._later(self._network.link(self.process.name, machine).arrival(now), self._reach)

    def fail(self, error: BaseException) -> None:
        if not self.waiter.done():
            self.waiter.set_exception(error)

    def abandon(self) -> None:
        """The caller no longer waits. If a connection is made after that, its kernel closes it."""
        self._left = True
        if self._transport is not None:
            self._transport.orphan()

    def _is_silent(self, machine: str) -> bool:
        network, here = self._network, self.process.name
        return machine in network.dark or network.link(here, machine).cut or network.link(machine, here).cut

    def _reach(self) -> None:
        """The first segment arrives."""
        if self._left or not self.process.alive:
            return
        machine, listener = self._network.find(self.process.name, self._to)
        if machine is None or self._is_silent(machine):
            self._try_again(self.begin)
            return
        back = self._network.link(machine, self.process.name).arrival(self._loop.time())
        if listener is None:
            self._later(back, self.fail, ConnectionRefused(111, f"nobody listens at {self._to}"))
        else:
            self._transport = self._network.connect(self.process, listener, self._to)
            self._later(back, self._answered, machine)

    def _answered(self, machine: str) -> None:
        if self._left or not self.process.alive:
            return
        if self._network.link(machine, self.process.name).cut:
            self._try_again(self._answered, machine)
        else:
            self._loop.call_soon(self._establish, context=self.process.context())

    def _establish(self) -> None:
        """Runs as the process that connects."""
        assert self._transport is not None
        if not self.waiter.done():
            self._transport.start(self._factory())
            self.waiter.set_result(self._transport)

    def _try_again(self, step: Callable[..., None], *args: object) -> None:
        at = self._loop.time() + self._repeat
        self._repeat *= 2
        if at < self._deadline:
            self._later(at, step, *args)
        else:
            self._later(self._deadline, self._time_out)

    def _time_out(self) -> None:
        if self._transport is not None:
            self._transport.orphan()
        self.fail(Unreachable(110, f"no answer from {self._to}"))

    def _later(self, at: float, step: Callable[..., None], *args: object) -> None:
        self._loop.call_at(at, step, *args, context=self._loop.root.context())
