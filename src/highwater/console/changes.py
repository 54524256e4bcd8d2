"""Changes from the page: each is a POST, is refused unless it was allowed at the start, and names the command that does
the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from highwater.client import Admin, Producer, ResourceType
from highwater.client.elections import Election, elect_leaders
from highwater.client.groups import Groups
from highwater.console.browsing import any_partition, check_place, key_partition
from highwater.console.clients import Clients
from highwater.console.commands import fault_command, produce_command, setting_command
from highwater.console.given import (
    DIGITS,
    HEADERS,
    NAME,
    NUMBER,
    NUMBERS,
    SHORT,
    TEXT,
    TEXTS,
    TRUTH,
    BadQuestion,
    Fields,
    or_null,
    order_of,
    rows_with,
)
from highwater.console.offset_reset import command_of, planned, preview
from highwater.console.replay import Range, replay, replay_command
from highwater.console.requests import answered, problem
from highwater.errors import Code
from highwater.model import TopicPartition

Order = Callable[[Mapping[str, Any]], str]
"""Gives an order to the `highwater up` of the cluster. Raises OrderRefused."""

RECORD: Fields = {
    "key": or_null(TEXT), "value": or_null(TEXT), "headers": or_null(HEADERS), "partition": or_null(NUMBER)
}  # fmt: skip
RANGE: Fields = {
    "partition": DIGITS, "from": DIGITS, "until": DIGITS, "to": NAME, "by": TEXT, "time": TEXT, "filter": or_null(TEXTS)
}  # fmt: skip
SETTING: Fields = {"name": NAME, "value": or_null(SHORT)}
ELECTION: Fields = {"partition": or_null(NUMBER)}
RESET: Fields = {"topic": NAME, "form": TEXT, "at": TEXT, "partition": or_null(NUMBER)}
OFFSETS: Fields = {"rows": rows_with(topic=NAME, partition=NUMBER, after=DIGITS)}
FAULT: Fields = {"verb": TEXT, "nodes": NUMBERS, "one_way": TRUTH, "ms": NUMBER}
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

    async def changed(
        self, request: Request, fields: Fields, change: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Response:
        """What the change returns, if changes are allowed and its order has these fields."""
        if not self.are_allowed:
            return problem(403, "This console is read-only. Start it with --allow-changes.")
        return await ordered(request, fields, change)

    async def produce(self, request: Request) -> Response:
        topic = request.path_params["topic"]

        def change(order: dict[str, Any]) -> dict[str, Any]:
            key, value = order.get("key"), order.get("value")
            headers = [(name, content.encode()) for name, content in order.get("headers") or []]
            with self._clients.borrowed() as client:
                partition = order.get("partition")
                if partition is None:
                    partition = any_partition(client, topic) if key is None else key_partition(client, topic, key)
                place = TopicPartition(topic, partition)
                check_place(client, place)
                record = (time.time_ns() // 1_000_000, _encoded(key), _encoded(value), headers)
                offset = Producer(client).send(place, [record])
            command = produce_command(self._clients.bootstrap, topic, key, value, headers)
            return {"partition": partition, "offset": str(offset), "command": command}

        return await self.changed(request, RECORD, change)

    async def replay(self, request: Request) -> Response:
        """Copies a range of records into another topic."""
        topic = request.path_params["topic"]

        def change(order: dict[str, Any]) -> dict[str, Any]:
            wanted = Range.of(topic, order)
            with self._clients.borrowed() as client:
                found = replay(client, wanted)
            return {**found, "command": replay_command(self._clients.bootstrap, wanted)}

        return await self.changed(request, RANGE, change)

    async def alter_setting(self, request: Request) -> Response:
        topic = request.path_params["topic"]

        def change(order: dict[str, Any]) -> dict[str, Any]:
            name, value = order.get("name"), order.get("value")
            if name is None:
                raise BadQuestion("name a setting")
            with self._clients.borrowed() as client:
                Admin(client).alter_configs(
                    ResourceType.TOPIC,
                    topic,
                    put={} if value is None else {name: value},
                    delete=[name] if value is None else [],
                )
            return {"command": setting_command(self._clients.bootstrap, topic, name, value)}

        return await self.changed(request, SETTING, change)

    async def elect(self, request: Request) -> Response:
        """The first replica of each partition becomes its leader again, where it is in sync."""
        topic = request.path_params["topic"]

        def change(order: dict[str, Any]) -> dict[str, Any]:
            with self._clients.borrowed() as client:
                client.forget(topic)
                known = sorted(client.retrying(lambda: client.topic(topic)).partitions)
                wanted = [index for index in known if order.get("partition") in (None, index)]
                if not wanted:
                    check_place(client, TopicPartition(topic, order["partition"]))
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

        return await self.changed(request, ELECTION, change)

    async def preview_reset(self, request: Request) -> Response:
        """Changes nothing, and so needs no permission."""
        group = request.query_params.get("group", "")

        def work(order: dict[str, Any]) -> dict[str, Any]:
            with self._clients.borrowed() as client:
                rows = preview(planned(client, group, order))
            return {"rows": rows, "command": command_of(self._clients.bootstrap, group, order)}

        return await ordered(request, RESET, work)

    async def reset(self, request: Request) -> Response:
        """Commits exactly the offsets that the preview showed."""
        group = request.query_params.get("group", "")

        def change(order: dict[str, Any]) -> dict[str, Any]:
            rows = order.get("rows")
            if not rows:
                raise BadQuestion("there is nothing to reset")
            offsets = {TopicPartition(row["topic"], row["partition"]): int(row["after"]) for row in rows}
            with self._clients.borrowed() as client:
                groups = Groups(client)
                state = groups.describe(group).group.group_state
                if state not in ("Empty", "Dead"):
                    raise BadQuestion(f"the group is {state}: offsets can be reset while it has no members")
                groups.commit(group, offsets)
            return {"done": len(offsets)}

        return await self.changed(request, OFFSETS, change)

    async def fault(self, request: Request) -> Response:
        if self._order is None:
            return problem(403, "Faults are off. Start the console with --allow-faults, beside `highwater up`.")
        give = self._order
        refused: list[str] = []

        def work(order: dict[str, Any]) -> dict[str, Any]:
            if order.get("verb") not in VERBS:
                raise BadQuestion(f"a fault is one of {', '.join(VERBS)}")
            try:
                return {"done": give(order), "command": fault_command(order, self._directory)}
            except OrderRefused as reason:
                refused.append(str(reason))
                return {}

        response = await ordered(request, FAULT, work)
        return problem(409, refused[0]) if refused else response


async def ordered(request: Request, fields: Fields, work: Callable[[dict[str, Any]], dict[str, Any]]) -> Response:
    """What the work makes of the order that the page sent."""
    try:
        order = await order_of(request, fields)
    except BadQuestion as wrong:
        return problem(400, str(wrong))
    return await answered(lambda: work(order))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
