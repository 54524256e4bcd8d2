"""Requests with one array of theirs made long, found in the messages themselves; and how much work a node does for one
between two moments at which it could give way."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from highwater.model import Endpoint
from highwater.net import connection, turns
from highwater.net.client import ClientConnection
from highwater.net.deadlines import DeadlineQueue
from highwater.net.registry import Api, Role
from highwater.wire.codec import Message, Struct, UnsupportedField
from tests.subjects import Subject, registries
from tests.unit.broker.living import NODE, Living

TOPIC, GROUP = "t", "g"
NAMES = {"topic": TOPIC, "name": TOPIC, "topic_name": TOPIC, "group_id": GROUP, "resource_name": TOPIC}
"""What text fields hold, so that a request gets as far as it can; others hold `x`."""
PORTS = {Role.BROKER: 9092, Role.CONTROLLER: 9093}


class Long(NamedTuple):
    """One request of one API on the listener of a role, with the array at `path` made long."""

    role: Role
    api: Api
    path: tuple[str, ...]
    alike: bool
    """All elements are the same; otherwise each has a name or a number of its own."""

    @property
    def name(self) -> str:
        kind = "alike" if self.alike else "apart"
        return f"{self.role.value} {self.api.request.__name__} {'.'.join(self.path)} {kind}"

    def request(self, length: int, version: int) -> Message:
        made = _made(self.api.request, self.path, length, self.alike, count())
        if self.path[0] in ("groups", "coordinator_keys", "members"):
            _without_texts(made, version)
        assert isinstance(made, Message)
        return made


def all_long() -> list[Long]:
    found = []
    for registry in registries():
        for key, _, _ in registry.advertised():
            entry = registry.find(key)
            assert entry is not None
            for path in _arrays(entry.api.request):
                found += [Long(registry.role, entry.api, path, alike) for alike in (True, False)]
    return found


def _fields(struct: type[Struct]) -> dict[str, Any]:
    """The type of each field's array elements, or None for a field that is no array."""
    hints = get_type_hints(struct.__init__)
    return {name: _element(hints[name]) for name in struct.__slots__ if name in hints}


def _element(hint: Any) -> Any:
    for each in (hint, *get_args(hint)):
        if get_origin(each) is list:
            return get_args(each)[0]
    return None


def _arrays(struct: type[Struct]) -> Iterator[tuple[str, ...]]:
    for name, element in _fields(struct).items():
        if element is None:
            continue
        yield (name,)
        if isinstance(element, type) and issubclass(element, Struct):
            for below in _arrays(element):
                yield (name, *below)


def _made(struct: type[Struct], path: tuple[str, ...], length: int, alike: bool, numbers: Iterator[int]) -> Struct:
    made = struct()
    hints = get_type_hints(struct.__init__)
    number = 0 if alike else next(numbers)
    for name, element in _fields(struct).items():
        if element is None:
            if hints[name] in (str, str | None):
                text = NAMES.get(name, "x")
                setattr(made, name, text if alike or path else f"{text}{number}")
            elif hints[name] is int and not path and name in ("partition", "partition_index", "index"):
                setattr(made, name, number)
        elif path and name == path[0]:
            times = length if len(path) == 1 else 1
            setattr(made, name, [_value(element, path[1:], length, alike, numbers) for _ in range(times)])
    return made


def _without_texts(made: Struct, version: int) -> None:
    """The one name of early versions has no place where there may be many."""
    for name in ("group_id", "key", "member_id"):
        if getattr(made, name, "") and not (name == "group_id" and hasattr(made, "members")):
            setattr(made, name, "")


def _value(element: Any, path: tuple[str, ...], length: int, alike: bool, numbers: Iterator[int]) -> Any:
    if isinstance(element, type) and issubclass(element, Struct):
        return _made(element, path, length, alike, numbers)
    number = 0 if alike else next(numbers)
    if element is str:
        return f"x{number}"
    if element is int:
        return number % 127
    return number.to_bytes(16, "big")


def encodable(long: Long, length: int) -> tuple[Message, int]:
    """In the newest version that can carry it."""
    lowest, highest = long.api.versions
    for version in range(highest, lowest - 1, -1):
        request = long.request(length, version)
        try:
            request.encode(version)
        except UnsupportedField:
            continue
        return request, version
    raise AssertionError(f"no version of {long.name} carries it")


def ask(living: Living, long: Long, length: int) -> None:
    """On a connection of its own, until it is answered or the connection is closed."""
    request, version = encodable(long, length)
    response = Subject(long.role, long.api, version).response

    async def ask() -> None:
        over: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def done(result: object) -> None:
            if not over.done():
                over.set_result(result)

        at = Endpoint(NODE, PORTS[long.role])
        connection = ClientConnection(living._client, at, "test", DeadlineQueue(living._client.clock), done)
        connection.open(lambda: connection.send(request, version, response, done, 30.0), 60.0)
        await over
        connection.close()

    living.sim.run(living._client.perform(ask()))


class Labour:
    """Counts calls, of Python's functions and of C's, as a measure of work that is the same on every machine."""

    def __init__(self) -> None:
        self.most = 0
        """Between two moments at which the loop was free, or could have been."""
        self.where = ""
        self._calls = 0
        self._outermost: FrameType | None = None

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        if self._outermost is None:
            if event == "call" and (frame.f_code.co_filename, frame.f_code.co_name) in ENTRANCES:
                self._outermost, self._calls = frame, 0
        elif event in ("call", "c_call"):
            self._calls += 1
            if frame.f_code is tick.__code__:
                self._take()
        elif event == "return" and frame is self._outermost:
            self._take()
            self._outermost = None

    def _take(self) -> None:
        self.most = max(self.most, self._calls)
        self._calls = 0


ENTRANCES = {(connection.__file__, "buffer_updated"), (turns.__file__, "_next")}
_now = count()


def tick() -> float:
    """A clock by which every piece of work takes as long as it may."""
    return float(next(_now))


@contextmanager
def labour_of(living: Living) -> Iterator[Labour]:
    """Of all that the node does meanwhile for what arrives at its listeners."""
    living.node.server.turns.monotonic = tick
    labour = Labour()
    before: Callable[..., Any] | None = sys.getprofile()
    sys.setprofile(labour.note)
    try:
        yield labour
    finally:
        sys.setprofile(before)
