"""What the cluster promised about topics: which are there, under which id, with which setting, and which are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from highwater.errors import Code
from highwater.model import ZERO_UUID, Uuid

PROPAGATION = 3.0
"""Seconds within which a living broker follows what the controller committed. A restarted one knows it at once."""
Note = Callable[[str, str], None]


class Standing(Enum):
    PRESENT = "present"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass
class Promise:
    standing: Standing
    at: float
    id: Uuid = ZERO_UUID
    settings: set[str] = field(default_factory=set)
    """One where the last change was answered, more where some were not."""
    setting_at: float = 0.0


class TopicPromises:
    def __init__(
        self, now: Callable[[], float], note: Note, complain: Callable[[str], None], seen: Counter[str]
    ) -> None:
        self._now = now
        self._note = note
        self._complain = complain
        self._seen = seen
        self._restarted = 0.0
        self._promises: dict[str, Promise] = {}
        self.count = 0

    def restarted(self) -> None:
        self._restarted = self._now()

    def present_names(self) -> list[str]:
        return [name for name, promise in self._promises.items() if promise.standing is Standing.PRESENT]

    def deleted_names(self) -> list[str]:
        return [name for name, promise in self._promises.items() if promise.standing is Standing.GONE]

    def _binds(self, since: float, asked: float) -> bool:
        return since < self._restarted <= asked or asked - since > PROPAGATION

    # What was asked and answered

    def creates(self, name: str) -> None:
        self.count += 1
        known = self._promises.get(name)
        if known is None or known.standing is Standing.GONE:
            self._promises[name] = Promise(Standing.UNKNOWN, self._now())

    def created(self, name: str, code: Code, topic_id: Uuid) -> None:
        self._note("admin", f"create {name}: {code.name}")
        if code is Code.NONE:
            self._promises[name] = Promise(Standing.PRESENT, self._now(), topic_id)

    def deletes(self, name: str) -> None:
        self._promises[name].standing = Standing.UNKNOWN

    def deleted(self, name: str, code: Code) -> None:
        self._note("admin", f"delete {name}: {code.name}")
        if code is Code.NONE:
            self._seen["topics deleted"] += 1
            self._promises[name] = Promise(Standing.GONE, self._now())

    def alters(self, name: str, value: str) -> None:
        self._promises[name].settings.add(value)

    def altered(self, name: str, code: Code, value: str) -> None:
        self._note("admin", f"alter {name}: {code.name}")
        if code is Code.NONE:
            self._seen["settings changed"] += 1
            self._promises[name].settings = {value}
            self._promises[name].setting_at = self._now()

    # What was seen

    def saw(self, topics: Mapping[str, Uuid], asked: float) -> None:
        for name, promise in self._promises.items():
            seen = topics.get(name)
            if promise.standing is Standing.PRESENT:
                if seen is None and self._binds(promise.at, asked):
                    self._complain(f"topic {name} was created, and is not there")
                elif seen not in (None, promise.id) and self._binds(promise.at, asked):
                    self._complain(f"topic {name} was created with another id")
            elif promise.standing is Standing.GONE and seen is not None and self._binds(promise.at, asked):
                self._complain(f"topic {name} was deleted, and is there")
            elif promise.standing is Standing.UNKNOWN and seen is not None and promise.id == ZERO_UUID:
                promise.standing, promise.at, promise.id = Standing.PRESENT, self._now(), seen
        for name in topics:
            if name not in self._promises:
                self._complain(f"topic {name} was never created, and is there")

    def saw_setting(self, name: str, value: str, asked: float) -> None:
        promise = self._promises[name]
        if promise.setting_at and value not in promise.settings and self._binds(promise.setting_at, asked):
            self._complain(f"topic {name} was set to one of {sorted(promise.settings)}, and has {value}")
