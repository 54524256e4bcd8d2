"""One node on its event loop, above the fault layer, and the commands that control it."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any

from highwater.broker.status import describe_watched
from highwater.config import NodeConfig
from highwater.faults import Condition, Failures, FaultyNet, Rule
from highwater.faults.failures import Arbiter
from highwater.model import Endpoint, NodeId
from highwater.net.registry import Role
from highwater.node import Node
from highwater.wire import compression
from highwater.world.real import RealWorld


class SteeredNode:
    """Everything happens on the thread of the loop. Commands and answers are JSON values, since they may cross a
    socket."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        properties: Mapping[str, str],
        peers: Mapping[Endpoint, NodeId],
        arbiter: Arbiter,
        failed: Callable[[BaseException], None],
        opens_logs: Callable[[], None],
    ) -> None:
        self._arbiter = arbiter
        compression.ALONE = RLock()
        self.world = RealWorld(loop, lambda name, why: failed(why))
        self._net = FaultyNet(self.world.net, self.world.clock, peers)
        self.world.net = self._net
        self._config = NodeConfig.parse(properties)
        self._failed = failed
        self._opens_logs = opens_logs
        self.node: Node | None = None
        self._failures: Failures | None = None
        self._early: list[Rule] = []

    async def start(self) -> None:
        node = self.node = await Node.open(self.world, self._config, self._failed, self._opens_logs)
        await node.start()
        self._failures = Failures(node.server.registries, self._arbiter)
        for rule in self._early:
            self._failures.arm(rule)

    async def stop(self) -> None:
        if self.node is not None:
            await self.node.stop()
        self.world.close()

    def obey(self, verb: str, argument: Any) -> Any:
        match verb:
            case "link":
                peer, *condition = argument
                self._net.change(NodeId(peer), Condition(*condition))
            case "arm":
                self._arm(Rule(argument[0], Role(argument[1]), *argument[2:]))
            case "disarm":
                self._early = [rule for rule in self._early if rule.id != argument]
                if self._failures is not None:
                    self._failures.disarm(argument)
            case "look":
                return self._look(argument)
            case "replica":
                broker = None if self.node is None else self.node.broker
                return None if broker is None else describe_watched(broker, *argument)
            case _:
                raise ValueError(f"no such command: {verb}")
        return None

    def _arm(self, rule: Rule) -> None:
        if self._failures is None:
            self._early.append(rule)
        else:
            self._failures.arm(rule)

    def _look(self, topic: str | None) -> dict[str, Any] | None:
        """The metadata as this node knows it: what is committed, and what the broker has applied. None until the node
        is ready."""
        node = self.node
        if self._failures is None or node is None:
            return None
        committed = node.raft.committed
        seen: dict[str, Any] = {
            "offset": committed.offset,
            "controller": node.raft.leader_id,
            "epoch": node.raft.quorum.epoch,
            "published": None if node.broker is None else node.broker.metadata.image.offset,
            "brokers": [each.id for each in committed.brokers.by_id.values() if each.active],
        }
        image = None if topic is None else committed.topics.by_name.get(topic)
        if image is not None:
            seen["partitions"] = {
                str(index): [part.leader, part.leader_epoch, list(part.replicas), list(part.isr)]
                for index, part in image.partitions.items()
            }
        return seen
