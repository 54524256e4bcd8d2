"""Faults of links between nodes, and between nodes and clients."""

from __future__ import annotations

from highwater.sim.faults.fault import Fault
from highwater.sim.faults.scene import Scene

SLOW_LINK = (0.05, 0.4)


class LinkFaults:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._sim = scene.sim

    def trouble(self, fault: Fault, name: str, until: float) -> bool:
        """Whether the verb is one of these."""
        others = [each for each in self._scene.cluster.names if each != name]
        peer = others[int(fault.draw * 7919) % len(others)]
        match fault.verb:
            case "cut a link of":
                self._cut("cuts", [(name, peer)], until)
            case "cut one way from":
                self._cut("one-way cuts", [(name, peer)] if fault.draw < 0.5 else [(peer, name)], until, one_way=True)
            case "isolate":
                self._cut("isolations", [(name, each) for each in (*others, *self._scene.clients)], until)
            case "isolate from nodes":
                self.isolate_from_nodes(name, until)
            case "slow a link of":
                self._scene.say(f"{name} - {peer}: slow until {until:.3f}")
                self._scene.count("slow links", self._scene.state_of(name))
                self._sim.slow(name, peer, SLOW_LINK)
                self._sim.at(until, self._heal, [(name, peer)])
            case "reset the connections of":
                self._scene.say(f"{name} - {peer}: connections are reset")
                self._scene.count("resets", self._scene.state_of(name))
                self._sim.reset(name, peer)
            case _:
                return False
        return True

    def isolate_from_nodes(self, name: str, until: float) -> None:
        """Its clients still reach it."""
        others = [each for each in self._scene.cluster.names if each != name]
        self._cut("isolations", [(name, each) for each in others], until)

    def _cut(self, kind: str, links: list[tuple[str, str]], until: float, one_way: bool = False) -> None:
        arrow = "->" if one_way else "-"
        self._scene.count(kind, self._scene.state_of(links[0][0]))
        self._scene.say(f"{', '.join(f'{a} {arrow} {b}' for a, b in links)}: cut until {until:.3f}")
        for a, b in links:
            self._sim.cut(a, b, one_way)
        self._sim.at(until, self._heal, links)

    def _heal(self, links: list[tuple[str, str]]) -> None:
        for a, b in links:
            self._sim.heal(a, b)

    def end(self) -> None:
        self._sim.heal()
