"""Faults of processes: killed, cut off from power, paused, stopped in order, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from highwater.sim.faults.fault import Fault
from highwater.sim.faults.losses import Losses
from highwater.sim.faults.scene import STARTS, Scene
from highwater.sim.trace import Event, Phase, matching
from highwater.sim.view import is_open


class Outages:
    def __init__(self, scene: Scene, losses: Losses, flushed: bool) -> None:
        self._scene = scene
        self._cluster = scene.cluster
        self._sim = scene.sim
        self._losses = losses
        self._flushed = flushed
        self._ordered: dict[str, asyncio.Task[None]] = {}

    def trouble(self, fault: Fault, name: str, until: float) -> bool:
        """Whether the verb is one of these."""
        match fault.verb:
            case "kill":
                self.take_down(name, False, until)
            case "cut the power of":
                self.take_down(name, self._losses.may_lose_power(name), until)
            case "tear a write of":
                self._crash_at(fault, name, "during", self._losses.may_lose_power(name))
            case "kill after a write of":
                self._crash_at(fault, name, "after", False)
            case "cut all power of":
                for each in self._cluster.names if self._flushed else [name]:
                    self.take_down(each, self._flushed, until)
            case "kill twice":
                self._kill_twice(fault, name, until)
            case "kill before it registers":
                self._crash_before_registration(fault, name, until, False)
            case "cut the power before it registers":
                self._cut_power_before_registration(fault, name, until)
            case "pause":
                self._pause(name, until)
            case "restart":
                self._begin(name, self._stop_and_start([name]))
            case "roll all, beginning with":
                at = self._cluster.names.index(name)
                self._begin(name, self._stop_and_start([*self._cluster.names[at:], *self._cluster.names[:at]]))
            case "turn the clock of":
                self._scene.say(f"{name}: the clock jumps by {(fault.draw - 0.5) * 7200:.0f} s")
                self._scene.count("clock jumps", self._scene.state_of(name))
                self._sim.jump_clock(name, (fault.draw - 0.5) * 7200)
            case _:
                return False
        return True

    # Crashes

    def take_down(self, name: str, power_loss: bool, until: float) -> bool:
        """Stops a node until it is started again. Returns False if the node is spared."""
        if self._is_spared(name):
            return False
        self._scene.say(f"{name}: {'the power is cut' if power_loss else 'killed'} until {until:.3f}")
        self._scene.count("power cuts" if power_loss else "kills", self._scene.state_of(name))
        self._crashed(name, power_loss)
        self._cluster.take_down(name, power_loss)
        self._sim.at(until, self.start, name)
        return True

    def _is_spared(self, name: str) -> bool:
        if self._losses.may_crash(name):
            return False
        self._scene.say(f"{name}: is spared, {self._losses.text()} has not recovered yet")
        return True

    def _crashed(self, name: str, power_loss: bool) -> None:
        self._scene.paused.pop(name, None)
        if power_loss:
            self._losses.lost_power(name)

    def _crash_at(self, fault: Fault, name: str, phase: Phase, power_loss: bool) -> None:
        """The node crashes at one of its next appends in this life, or after half a second if there are too few."""
        of_metadata = fault.draw < 0.3
        nth = 1 + int(fault.draw * 10) if of_metadata else 1 + int((fault.draw - 0.3) * 25)
        pattern = "/data/__cluster*" if of_metadata else "*.log"
        self._scene.say(f"{name}: {'loses power' if power_loss else 'dies'} {phase} its append no. {nth} to {pattern}")
        if power_loss:
            self._crashed(name, True)
        member, state = self._cluster.members[name], self._scene.state_of(name)
        life, matches = member.lives, matching("append", pattern)

        def is_it(event: Event) -> bool:
            return not self._scene.over and member.lives == life and matches(event) and self._losses.may_crash(name)

        point = self._sim.crash_at(name, is_it, nth, phase, power_loss)

        def look() -> None:
            if self._scene.over or member.lives != life:
                return
            if point.hit is not None:
                self._scene.say(f"{name}: has crashed at {point.hit.at:.4f}: {point.hit.kind} {point.hit.subject}")
                self._scene.count("torn writes" if phase == "during" else "kills after a write", state)
            self.take_down(name, power_loss, self._sim.now + fault.seconds)

        self._sim.at(self._sim.now + 0.5, look)

    def _kill_twice(self, fault: Fault, name: str, until: float) -> None:
        """The second kill comes soon after the restart, in any state."""
        if not self.take_down(name, False, until):
            return
        again = until + fault.dice().uniform(0.001, 0.3)

        def kill() -> None:
            if not self._scene.over and self._cluster.is_up(name):
                state = self._scene.state_of(name)
                if self.take_down(name, False, self._sim.now + fault.seconds):
                    self._scene.count("second kills", state)

        self._sim.at(again, kill)

    def _crash_before_registration(self, fault: Fault, name: str, until: float, power_loss: bool) -> None:
        """The node crashes at one of the first operations of its next life: half of the time on the network, where
        other nodes notice it."""
        if not self.take_down(name, power_loss, until):
            return
        member = self._cluster.members[name]
        dice, life = fault.dice(), member.lives + 1
        kinds = ("send", "receive") if dice.random() < 0.5 else ()
        nth = dice.randint(1, 60 if kinds else 250)

        def is_unregistered(event: Event) -> bool:
            node = member.node
            if self._scene.over or member.lives != life or not self._losses.may_crash(name):
                return False
            if kinds and event.kind not in kinds:
                return False
            return node is None or node.broker is None or node.broker.lifecycle.epoch < 0

        point = self._sim.crash_at(name, is_unregistered, nth, "before", power_loss)

        def look() -> None:
            if point.hit is not None and not self._scene.over and member.lives == life:
                self._scene.say(f"{name}: has died at {point.hit.at:.4f}, before it registered, at {point.hit.kind}")
                kind = "power cuts before registration" if power_loss else "kills before registration"
                self._scene.count(kind, STARTS)
                self._cluster.take_down(name, power_loss)
                self.start(name)

        self._sim.at(until + 0.3, look)

    def _cut_power_before_registration(self, fault: Fault, name: str, until: float) -> None:
        power_loss = self._losses.may_lose_power(name)
        if fault.draw < 0.4:
            self._crash_before_registration(fault, name, until, power_loss)
        else:
            self._keep_from_registering(fault, name, until, power_loss)

    def _keep_from_registering(self, fault: Fault, name: str, until: float, power_loss: bool) -> None:
        """The next life has roles and is cut off from the controller before it registers. Then its power is cut, and
        the life after that reaches no other node at first. What one life has reported is not true of the next."""
        if not self.take_down(name, power_loss, until):
            return
        member, dice = self._cluster.members[name], fault.dice()
        life = member.lives + 1

        def is_unregistered() -> bool:
            return not self._scene.over and member.lives == life and self._cluster.is_up(name) and not member.serves

        def wait() -> None:
            node, controller = member.node, self._cluster.active_controller()
            broker = None if node is None or not is_open(node) else node.broker
            if not is_unregistered() or (broker is not None and broker.lifecycle.epoch >= 0):
                return
            if broker is not None and any(broker.hosted):
                if controller not in (None, name):
                    self._sim.cut(name, controller)
                    self._sim.at(self._sim.now + dice.uniform(0.02, 0.4), die, controller)
            else:
                self._sim.at(self._sim.now + 0.002, wait)

        def die(controller: str) -> None:
            self._sim.heal(name, controller)
            if not is_unregistered() or not self._losses.may_crash(name):
                return
            peer = dice.choice([each for each in self._cluster.names if each not in (name, controller)])
            self._scene.say(f"{name}: dies before it registers, and starts without {peer}")
            self._scene.count("power cuts before registration" if power_loss else "kills before registration", STARTS)
            self._cluster.take_down(name, power_loss)
            self._sim.cut(name, peer)
            self._sim.at(self._sim.now + 0.6, self._sim.heal, name, peer)
            self.start(name)

        self._sim.at(until + 0.002, wait)

    # Orderly stops

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """One orderly operation on a node at a time."""
        if name in self._ordered:
            work.close()
        else:
            self._ordered[name] = self._sim.loop.create_task(work)
            self._ordered[name].add_done_callback(lambda _: self._ordered.pop(name))

    async def _stop_and_start(self, names: Sequence[str]) -> None:
        """A controlled shutdown, and a new life as soon as it has ended; then the next node."""
        for name in names:
            if self._scene.over or self._cluster.members[name] not in self._cluster.serving():
                continue
            if self._is_spared(name):
                continue
            self._scene.say(f"{name}: is stopped, and started again")
            state = self._scene.state_of(name)
            stopped = await self._cluster.stop(name)
            self._cluster.note(name, "has stopped" if stopped else "did not come to stop")
            if not stopped:
                continue
            self._scene.count("controlled restarts", state)
            self._cluster.start(name)
            while not self._scene.over and self._cluster.is_up(name) and not self._cluster.members[name].serves:
                await self._sim.sleep(0.01)
        if len(names) > 1 and not self._scene.over:
            self._scene.count("rolled clusters", "the cluster")

    def start(self, name: str) -> None:
        if not self._scene.over and not self._cluster.is_up(name):
            self._cluster.note(name, "starts")
            self._cluster.start(name)

    def start_again(self, name: str) -> None:
        """Starts a node soon that could not start, even after the end of the faults."""
        self._sim.at(self._sim.now + 0.05, self._start_if_down, name)

    def _start_if_down(self, name: str) -> None:
        if not self._cluster.is_up(name):
            self._cluster.start(name)

    # Pauses

    def _pause(self, name: str, until: float) -> None:
        if name in self._scene.paused:
            return
        self._scene.say(f"{name}: paused until {until:.3f}")
        self._scene.count("pauses", self._scene.state_of(name))
        self._scene.paused[name] = None
        self._sim.pause(name)
        self._sim.at(until, self._resume, name)

    def _resume(self, name: str) -> None:
        if self._scene.paused.pop(name, 0) is None and self._cluster.is_up(name):
            self._cluster.note(name, "resumes")
            self._sim.resume(name)

    def end(self) -> None:
        """Resumes paused nodes, and starts nodes that are down."""
        for name in list(self._scene.paused):
            self._resume(name)
        for name in self._cluster.names:
            if not self._cluster.is_up(name):
                self._cluster.take_down(name, False)
                self._cluster.start(name)
