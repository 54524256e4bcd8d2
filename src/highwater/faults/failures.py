"""Lets requests fail on purpose: a handler is replaced while a rule is in force, and restored afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from highwater.errors import code_of
from highwater.net.context import RequestContext
from highwater.net.registry import Api, Decode, Handle, Registered, Registry, Role
from highwater.net.turns import Work
from highwater.wire.codec import Malformed

CLOSE_CONNECTION: Final = -2
"""In the place of an error code: the connection is closed without a response. (-1 is UNKNOWN_SERVER_ERROR.)"""

Arbiter = Callable[[Sequence[int], Callable[[int | None], None]], None]
"""(ids of the rules that match a request, a callback): calls the callback once, now or later, with the rule to apply or
None."""

log = logging.getLogger(__name__)


class Rule(NamedTuple):
    id: int
    role: Role
    api_key: int
    code: int


class Failures:
    """The rules in force on one node. How often each one applies is decided outside, for all nodes together."""

    def __init__(self, registries: Sequence[Registry], arbiter: Arbiter) -> None:
        self._registries = {registry.role: registry for registry in registries}
        self._arbiter = arbiter
        self._rules: dict[tuple[Role, int], list[Rule]] = {}
        self._replaced: dict[tuple[Role, int], Registered] = {}

    def arm(self, rule: Rule) -> None:
        """Does nothing if no listener of this node answers the API."""
        place = (rule.role, rule.api_key)
        registry = self._registries.get(rule.role)
        entry = None if registry is None else registry.find(rule.api_key)
        if registry is None or entry is None:
            return
        if place not in self._replaced:
            self._replaced[place] = registry.replace(
                rule.api_key, self._disturbed(place, entry), _copying(entry.decode)
            )
        self._rules.setdefault(place, []).append(rule)

    def disarm(self, rule_id: int) -> None:
        for place, rules in list(self._rules.items()):
            rules[:] = [rule for rule in rules if rule.id != rule_id]
            if not rules:
                del self._rules[place]
                before = self._replaced.pop(place)
                self._registries[place[0]].replace(place[1], before.handle, before.decode)

    def _disturbed(self, place: tuple[Role, int], entry: Registered) -> Handle:
        api, handle = entry.api, entry.handle

        def disturbed(ctx: RequestContext, request: Any) -> Work | None:
            rules = {rule.id: rule for rule in self._rules.get(place, ())}
            if not rules or api.exempt(request):
                return handle(ctx, request)
            settled = False

            def settle(chosen: int | None) -> None:
                nonlocal settled
                settled = True
                _answer(api, ctx, request, handle, None if chosen is None else rules[chosen])

            self._arbiter(list(rules), settle)
            if not settled:  # a later request of this connection must not overtake this one
                ctx.slot.mute()
            return None

        return disturbed


def _answer(api: Api, ctx: RequestContext, request: Any, handle: Handle, rule: Rule | None) -> None:
    try:
        if rule is None:
            work = handle(ctx, request)
            if work is not None:
                ctx.connection.carry_out(ctx, work)
        elif (
            rule.code == CLOSE_CONNECTION or (refusal := api.refusal(request, code_of(rule.code), ctx.version)) is None
        ):
            ctx.slot.close_connection()
        else:
            ctx.respond(refusal)
    except Malformed:
        ctx.slot.close_connection()
    except Exception:  # the boundary between one request and the node: the arbiter may have answered later
        log.exception("a request of %s under a rule failed", ctx.client_id)
        ctx.slot.close_connection()


def _copying(decode: Decode) -> Decode:
    """A request that waits for its arbiter outlives the buffer in which it arrived."""
    return lambda data, version, most: decode(memoryview(bytearray(data)), version, most)
