"""Changes from the page: each is a POST, is refused unless it was allowed at the start, and names the command that does
the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from highwater.client import Admin, Producer, ResourceType
from highwater.client.elections import Election, elect_leaders
from highwater.client.groups import Groups
from highwater.console.browsing import BadQuestion, any_partition, key_partition
from highwater.console.clients import Clients
from highwater.console.commands import fault_command, produce_command
from highwater.console.offset_reset import command_of, planned, preview
from highwater.console.replay import Range, replay, replay_command
from highwater.console.requests import answered, problem
from highwater.errors import Code
from highwater.model import TopicPartition

Order = Callable[[Mapping[str, Any]], str]
"""Gives an order to the `highwater up` of the cluster. Raises OrderRefused."""

VERBS = ("kill", "start", "pause", "resume", "cut", "slow", "heal")


class OrderRefused(Exception):
    """The text says why."""


class Changes:
    def __init__(self, clients: Clients, are_allowed: bool, order: Order | None, directory: Path | None = None) -> None:
        """`order` is None unless faults are allowed. `directory` is that of the `up` which takes the orders."""
        self._clients = clients
        self.are_allowed = are_allowed
        self._order = order
        self._directory = directory

    @property
    def has_faults(self) -> bool:
        return self._order is not None

    async def changed(self, request: Request, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Response:
        """What the change returns, if changes are allowed."""
        if not self.are_allowed:
            return problem(403, "This console is read-only. Start it with --allow-changes.")
        order = await body_of(request)
        if order is None:
            return problem(400, "the body of a change is a JSON object")
        return await answered(lambda: change(order))

    async def produce(self, request: Request) -> Response:
        topic = request.path_params["topic"]

        def change(order: dict[str, Any]) -> dict[str, Any]:
            key, value = _text(order, "key"), _text(order, "value")
            headers = [(str(name), str(content).encode()) for name, content in order.get("headers") or []]
            with self._clients.borrowed() as client:
                partition = order.get("partition")
                if partition is None:
                    partition = any_partition(client, topic) if key is None else key_partition(client, topic, key)
                if not isinstance(partition, int):
                    raise BadQuestion("partition is a number")
                record = (time.time_ns() // 1_000_000, _encoded(key), _encoded(value), headers)
                offset = Producer(client).send(TopicPartition(topic, partition), [record])
            command = produce_command(self._clients.bootstrap, topic, key, value, headers)
            return {"partition": partition, "offset": str(offset), "command": command}

        return await self.changed(request, change)

    async def replay(self, request: Request) -> Response:
        """Copies a range of records into another topic."""
        topic = request.path_params["topic"]

        def change(order: dict[str, Any]) -> dict[str, Any]:
            wanted = Range.of(topic, order)
            with self._clients.borrowed() as client:
                found = replay(client, wanted)
            return {**found, "command": replay_command(self._clients.bootstrap, wanted)}

        return await self.changed(request, change)

    async def alter_setting(self, request: Request) -> Response:
        topic = request.path_params["topic"]

        def change(order: dict[str, Any]) -> dict[str, Any]:
            name, value = order.get("name"), _text(order, "value")
            if not isinstance(name, str) or not name:
                raise BadQuestion("name a setting")
            with self._clients.borrowed() as client:
                Admin(client).alter_configs(
                    ResourceType.TOPIC,
                    topic,
                    put={} if value is None else {name: value},
                    delete=[name] if value is None else [],
                )
            what = f"--delete-config {name}" if value is None else f"--add-config {quote(f'{name}={value}')}"
            server = self._clients.bootstrap
            return {
                "command": f"highwater configs --bootstrap-server {server} --alter --entity-type topics "
                f"--entity-name {quote(topic)} {what}"
            }

        return await self.changed(request, change)

    async def elect(self, request: Request) -> Response:
        """The first replica of each partition becomes its leader again, where it is in sync."""
        topic = request.path_params["topic"]

        def change(order: dict[str, Any]) -> dict[str, Any]:
            with self._clients.borrowed() as client:
                client.forget(topic)
                known = sorted(client.retrying(lambda: client.topic(topic)).partitions)
                wanted = [index for index in known if order.get("partition") in (None, index)]
                found = elect_leaders(client, Election.PREFERRED, [TopicPartition(topic, index) for index in wanted])
            failed = {
                str(place): str(error)
                for place, error in found.items()
                if error is not None and error.code is not Code.ELECTION_NOT_NEEDED
            }
            server = self._clients.bootstrap
            commands = [
                f"highwater leader-election --bootstrap-server {server} --election-type preferred "
                f"--topic {quote(topic)} --partition {index}"
                for index in wanted[:20]
            ]
            return {"failed": failed, "command": "\n".join(commands)}

        return await self.changed(request, change)

    async def preview_reset(self, request: Request) -> Response:
        """Changes nothing, and so needs no permission."""
        group = request.query_params.get("group", "")
        order = await body_of(request)
        if order is None:
            return problem(400, "the body is a JSON object")

        def work() -> dict[str, Any]:
            with self._clients.borrowed() as client:
                rows = preview(planned(client, group, order))
            return {"rows": rows, "command": command_of(self._clients.bootstrap, group, order)}

        return await answered(work)

    async def reset(self, request: Request) -> Response:
        """Commits exactly the offsets that the preview showed."""
        group = request.query_params.get("group", "")

        def change(order: dict[str, Any]) -> dict[str, Any]:
            rows = order.get("rows")
            if not isinstance(rows, list) or not rows:
                raise BadQuestion("there is nothing to reset")
            try:
                offsets = {TopicPartition(str(row["topic"]), int(row["partition"])): int(row["after"]) for row in rows}
            except (KeyError, TypeError, ValueError) as wrong:
                raise BadQuestion("a row has a topic, a partition and the offset after the reset") from wrong
            with self._clients.borrowed() as client:
                groups = Groups(client)
                state = groups.describe(group).group.group_state
                if state not in ("Empty", "Dead"):
                    raise BadQuestion(f"the group is {state}: offsets can be reset while it has no members")
                groups.commit(group, offsets)
            return {"done": len(offsets)}

        return await self.changed(request, change)

    async def fault(self, request: Request) -> Response:
        order = await body_of(request)
        if self._order is None:
            return problem(403, "Faults are off. Start the console with --allow-faults, beside `highwater up`.")
        if order is None or order.get("verb") not in VERBS:
            return problem(400, f"a fault is one of {', '.join(VERBS)}")
        give = self._order
        refused: list[str] = []

        def work() -> dict[str, Any]:
            try:
                return {"done": give(order), "command": fault_command(order, self._directory)}
            except OrderRefused as reason:
                refused.append(str(reason))
                return {}

        response = await answered(work)
        return problem(409, refused[0]) if refused else response


async def body_of(request: Request) -> dict[str, Any] | None:
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError, ClientDisconnect):
        return None
    return found if isinstance(found, dict) else None


def _text(order: Mapping[str, Any], name: str) -> str | None:
    found = order.get(name)
    if found is not None and not isinstance(found, str):
        raise BadQuestion(f"{name} is a text, or null")
    return found


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
