"""The calls that fail: `fail(api, error)` with its counts, shared by all nodes of a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from highwater.apis import APIS
from highwater.errors import Code
from highwater.faults import CLOSE_CONNECTION, Rule
from highwater.model import NodeId
from highwater.net.registry import Role
from highwater.wire.messages import index

if TYPE_CHECKING:
    from typing import Self


def rule_for(rule_id: int, api: str, error: str, on_controller: bool) -> Rule:
    """Raises ValueError if there is no such API or error. An API that brokers answer fails there, unless
    `on_controller` is set."""
    keys = {name.removesuffix("Request"): key for key, name in index.REQUESTS.items()}
    if api not in keys:
        raise ValueError(f"there is no API {api!r}; one would be 'Produce'")
    key = keys[api]
    roles = [role for role in Role if any(declared.key == key for declared in APIS[role])]
    if not roles:
        raise ValueError(f"{api} is answered by no node")
    role = roles[-1] if on_controller else roles[0]
    if error == "close_connection":
        return Rule(rule_id, role, key, CLOSE_CONNECTION)
    if error not in Code.__members__:
        raise ValueError(f"there is no error {error!r}; one would be 'NOT_LEADER_OR_FOLLOWER', or 'close_connection'")
    return Rule(rule_id, role, key, int(Code[error]))


class Failure:
    """A rule for failing calls. It applies to no call until `once`, `times`, `on_call` or `always` is called."""

    def __init__(self, rule: Rule, node: NodeId | None, arm: Callable[[Failure], None]) -> None:
        self.rule = rule
        self.node = node
        self._arm = arm
        self._first = 1
        self._last: int | None = 0
        self.calls = 0
        """The number of matching calls since it was armed."""
        self.fired = 0
        """The number of calls that failed."""

    def once(self) -> Self:
        """The next call fails."""
        return self.times(1)

    def times(self, n: int) -> Self:
        """The next n calls fail."""
        return self._window(1, n)

    def on_call(self, n: int) -> Self:
        """The n-th call from now fails; the first is 1."""
        return self._window(n, n)

    def always(self) -> Self:
        """Every call fails until the cluster heals."""
        return self._window(1, None)

    @property
    def is_spent(self) -> bool:
        return self._last is not None and self.calls >= self._last

    def strikes(self) -> bool:
        """Counts one call, and returns whether it fails."""
        self.calls += 1
        hit = self.calls >= self._first and (self._last is None or self.calls <= self._last)
        self.fired += hit
        return hit

    def _window(self, first: int, last: int | None) -> Self:
        if first < 1 or (last is not None and last < first):
            raise ValueError("calls are counted from 1")
        if self._last != 0:
            raise ValueError("it is already set when this failure happens")
        self._first, self._last = first, last
        self._arm(self)
        return self


class Rules:
    """All failures of a cluster. Nodes ask from their own threads which rule applies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: dict[int, Failure] = {}
        self._made = 0

    def next_id(self) -> int:
        self._made += 1
        return self._made

    def add(self, failure: Failure) -> None:
        with self._lock:
            self._armed[failure.rule.id] = failure

    def clear(self) -> list[int]:
        with self._lock:
            ids = list(self._armed)
            self._armed.clear()
            return ids

    def armed_for(self, node: NodeId) -> list[Rule]:
        with self._lock:
            return [each.rule for each in self._armed.values() if each.node in (None, node) and not each.is_spent]

    def decide(self, node: NodeId, ids: Sequence[int]) -> int | None:
        """The rules count the call in the order in which they were made, up to the one that applies."""
        with self._lock:
            for failure in (self._armed[each] for each in ids if each in self._armed):
                if not failure.is_spent and failure.strikes():
                    return failure.rule.id
            return None

    def take_spent(self) -> list[int]:
        """The rules that will never apply again; each is returned once."""
        with self._lock:
            spent = [rule_id for rule_id, failure in self._armed.items() if failure.is_spent]
            for rule_id in spent:
                del self._armed[rule_id]
            return spent
