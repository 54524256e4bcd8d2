"""Moves from the page: plans that are only shown, and the changes that carry them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from highwater.client import Admin, Client
from highwater.client.balance_sight import look
from highwater.client.elections import Election, elect_leaders
from highwater.client.reassignments import alter_reassignments
from highwater.client.throttles import clear_throttles, planned_moves, set_throttle
from highwater.console.changes import Changes, ordered
from highwater.console.clients import Clients
from highwater.console.commands import unthrottle_commands
from highwater.console.given import NAME, NUMBER, NUMBERS, TEXT, BadQuestion, Fields, or_null, rows_with
from highwater.console.move_plan import (
    BALANCES,
    cancel_command,
    elect_command,
    planned,
    start_command,
    targets_of,
    throttle_of,
)
from highwater.console.move_reader import MoveReader, described_partitions
from highwater.console.mover import Busy, Mover
from highwater.console.requests import answered
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition

FAILURES_SHOWN = 20
MOST_NAMES = 5000
PLAN: Fields = {
    "kind": TEXT, "topic": NAME, "partition": NUMBER, "replicas": NUMBERS, "factor": NUMBER, "brokers": NUMBERS,
    "throttle": or_null(TEXT),
}  # fmt: skip
START: Fields = {**PLAN, "rows": rows_with(topic=NAME, partition=NUMBER, after=NUMBERS)}
CANCEL: Fields = {"rows": rows_with(topic=NAME, partition=NUMBER, target=NUMBERS)}


class MoveRequests:
    def __init__(self, clients: Clients, changes: Changes, reader: MoveReader, mover: Mover) -> None:
        self._clients = clients
        self._changes = changes
        self._reader = reader
        self._mover = mover

    async def plan(self, request: Request) -> Response:
        """Changes nothing, and so needs no permission."""

        def work(order: dict[str, Any]) -> dict[str, Any]:
            with self._clients.borrowed() as client:
                found = planned(client, order)
            targets = targets_of(found["rows"]) if found["rows"] else {}
            return {**found, "command": start_command(self._clients.bootstrap, order, targets)}

        return await ordered(request, PLAN, work)

    async def topics(self, request: Request) -> Response:
        """The names, for the choice of one."""

        def work() -> dict[str, Any]:
            with self._clients.borrowed() as client:
                return {"topics": sorted(Admin(client).list_topics())[:MOST_NAMES]}

        return await answered(work)

    async def placement(self, request: Request) -> Response:
        """The replicas of one partition."""
        name, index = request.path_params["topic"], request.query_params.get("partition", "")

        def work() -> dict[str, Any]:
            with self._clients.borrowed() as client:
                parts = {str(tp.partition): part for tp, part in described_partitions(client, {name}).items()}
            if index not in parts:
                raise BadQuestion(f"there is no partition {name}-{index[:20]}")
            return {"replicas": list(parts[index].replica_nodes), "isr": list(parts[index].isr_nodes)}

        return await answered(work)

    async def start(self, request: Request) -> Response:
        """Begins exactly the moves that the plan showed."""

        def change(order: dict[str, Any]) -> dict[str, Any]:
            targets, throttle = targets_of(order.get("rows")), throttle_of(order)
            failed: dict[TopicPartition, KafkaError] = {}
            if order.get("kind") in BALANCES:
                try:
                    self._mover.start(targets)
                except Busy as busy:
                    raise BadQuestion(str(busy)) from busy
            else:
                with self._clients.borrowed() as client:
                    if throttle is not None:
                        _set_throttle(client, targets, throttle)
                    failed = alter_reassignments(client, targets)
            self._reader.expect({tp: replicas for tp, replicas in targets.items() if tp not in failed})
            command = start_command(self._clients.bootstrap, order, targets)
            return {"begun": len(targets) - len(failed), "failed": _shown(failed), "command": command}

        return await self._changes.changed(request, START, change)

    async def cancel(self, request: Request) -> Response:
        def change(order: dict[str, Any]) -> dict[str, Any]:
            targets = targets_of(order.get("rows"), "target")
            self._mover.stop()
            with self._clients.borrowed() as client:
                failed = alter_reassignments(client, dict.fromkeys(targets))
            self._reader.note_cancelled(tp for tp in targets if tp not in failed)
            ended = [tp for tp, error in failed.items() if error.code is Code.NO_REASSIGNMENT_IN_PROGRESS]
            for tp in ended:
                del failed[tp]
            command = cancel_command(self._clients.bootstrap, targets)
            return {"cancelled": len(targets) - len(failed), "failed": _shown(failed), "command": command}

        return await self._changes.changed(request, CANCEL, change)

    async def stop(self, request: Request) -> Response:
        """Ends a balance: no further move is begun."""

        def change(order: dict[str, Any]) -> dict[str, Any]:
            self._mover.stop()
            return {"command": "Ctrl-C in `highwater balance --execute`"}

        return await self._changes.changed(request, {}, change)

    async def elect(self, request: Request) -> Response:
        """The first replica of each partition becomes its leader, where it is in sync."""

        def change(order: dict[str, Any]) -> dict[str, Any]:
            with self._clients.borrowed() as client:
                found = elect_leaders(client, Election.PREFERRED, None)
            failed = {
                tp: error
                for tp, error in found.items()
                if error is not None and error.code is not Code.ELECTION_NOT_NEEDED
            }
            return {
                "elected": len(found) - len(failed),
                "failed": _shown(failed),
                "command": elect_command(self._clients.bootstrap),
            }

        return await self._changes.changed(request, {}, change)

    async def unthrottle(self, request: Request) -> Response:
        """Deletes the settings of a throttle, whichever tool has set them, as `reassign --verify` does."""

        def change(order: dict[str, Any]) -> dict[str, Any]:
            with self._clients.borrowed() as client:
                brokers, topics = clear_throttles(Admin(client))
            command = unthrottle_commands(self._clients.bootstrap, brokers, topics)
            return {"topics": len(topics), "brokers": len(brokers), "command": command}

        return await self._changes.changed(request, {}, change)


def _set_throttle(client: Client, targets: Mapping[TopicPartition, list[int]], rate: int) -> None:
    admin = Admin(client)
    current = {tp: held.replicas for tp, held in look(client).partitions.items()}
    missing = [tp for tp in targets if tp not in current]
    if missing:
        raise BadQuestion(f"there is no partition {missing[0]}")
    set_throttle(admin, planned_moves(targets, current, admin.list_reassignments()), rate)


def _shown(failed: Mapping[TopicPartition, KafkaError]) -> dict[str, str]:
    return {str(tp): str(failed[tp]) for tp in sorted(failed)[:FAILURES_SHOWN]}
