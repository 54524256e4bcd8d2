"""How an API is declared, and which APIs a listener answers. ApiVersions is computed from the same declarations, so it
always matches the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Final, NamedTuple

from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.room import RoomPlace
from highwater.net.turns import Resume, Work, elsewhere
from highwater.wire.codec import Message
from highwater.wire.messages import index
from highwater.world import Disk, Step, World

Handle = Callable[[RequestContext, Any], Work | None]
"""(context, decoded request): answers through the context, now or later. It runs on the event loop and never blocks.
Work that grows with the request is returned, and is done in turns."""

Decode = Callable[[memoryview, int, int], Any]
"""(body, version, most elements) -> request. Raises wire.codec.Malformed, or TooMany if there are more elements."""

Refuse = Callable[[Any, Code, int], Message | None]
"""(decoded request, error, version) -> the response that holds only this error. Each topic, partition or group of the
request gets it, if the response has them. None if the client expects no response: then the connection is closed."""


ELEMENTS_AT_ONCE: Final = 500
"""A request with at most this many array elements is decoded on the event loop, in a few milliseconds."""
MOST_ELEMENTS: Final = 100_000
"""The most elements of all arrays of any request together: more would take too much memory."""
ELEMENTS_IN_ONE_GO: Final = 2_000
"""The most elements of a request whose handler does all work at once."""
MANY_ELEMENTS: Final = 5_000
"""The same, for APIs that need more: the work takes 30 ms at most."""
NUMEROUS_ELEMENTS: Final = 10_000
"""The same, for a request that moves as many partitions as others may name: their replicas count, too."""
MOST_BYTES: Final = 8 << 20
"""The largest request: more than 30 000 topics with the longest names, and as much as one change of the metadata may
have. Elements may be few and long. They are copied when they are decoded, and again when they are forwarded."""
MANY_BYTES: Final = 32 << 20
"""The same, for APIs where each of MANY_ELEMENTS may have 4 KiB of metadata (the default of offset.metadata.max.bytes),
or where a leader sends the assignments of a whole group."""
ANY_BYTES: Final = 2**31
"""For records of clients. Only socket.request.max.bytes limits them."""


class Role(Enum):
    BROKER = "broker"
    CONTROLLER = "controller"


def _never(request: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Api:
    """The only declaration of an API: `API`, beside its `handle`, in a file that is named after its key.

    The package of that file decides which listener answers it. Everything else follows from the declaration: what a
    listener dispatches, decodes and advertises, what brokers forward to the controller, how a request is refused, and
    which requests can get an injected error in tests.
    """

    key: int
    versions: tuple[int, int]
    request: type[Message]
    advertised_min: int | None = None
    """Lower than what is handled only for Produce: see KAFKA-18659 in docs/divergence.md."""
    most_elements: int = ELEMENTS_IN_ONE_GO
    """The most elements of all its arrays together: MOST_ELEMENTS if its handler works in turns."""
    most_bytes: int = MOST_BYTES
    """The largest frame. A larger one closes the connection before it is decoded."""
    decode: Decode | None = None
    """A flat decoder for the hot path; None uses the decoder of the request message."""
    forwarded: bool = False
    """An API of the controller that brokers accept, too, and forward to the active controller (KIP-590)."""
    refuse: Refuse | None = None
    """Makes the response that refuses a whole request. None if the response has an error code at its top level."""
    exempt: Callable[[Any], bool] = _never
    """Requests that get no injected error."""

    @property
    def response(self) -> type[Message]:
        return index.load(index.RESPONSES[self.key])

    def refusal(self, request: Any, code: Code, version: int) -> Message | None:
        """As `Refuse` says."""
        if self.refuse is not None:
            return self.refuse(request, code, version)
        plain: Callable[..., Message] = self.response
        return plain(error_code=code)


class Handler(NamedTuple):
    """An API with its handler: a function that takes a part of the node, and then the arguments of `Handle`."""

    api: Api
    handle: Callable[..., Work | None]


_HANDLER_FILE: Final = re.compile(r"k\d\d_\w+")


def handlers_of(package: ModuleType) -> tuple[Handler, ...]:
    """The handlers of a package: each handler file has an `API` and a `handle`."""
    names = sorted(each.name for each in iter_modules(package.__path__) if _HANDLER_FILE.fullmatch(each.name))
    modules = [import_module(f"{package.__name__}.{name}") for name in names]
    return tuple(Handler(module.API, module.handle) for module in modules)


@dataclass(frozen=True, slots=True)
class Registered:
    """An Api with its handler, laid out for dispatch: one look-up per request."""

    api: Api
    handle: Handle
    decode: Decode
    lowest: int
    highest: int
    flexible: int
    """The first version with the flexible request header."""
    most_bytes: int


def decode_at_length(disk: Disk, entry: Registered, body: memoryview, version: int) -> Generator[Step, None, Any]:
    """A job: decodes a request with too many elements for the event loop."""
    yield Step()
    return entry.decode(body, version, entry.api.most_elements)


def at_length(
    world: World, entry: Registered, ctx: RequestContext, body: memoryview, find_place: Callable[[Resume], RoomPlace]
) -> Work:
    """A request of many elements: decoded off the loop, and few of them at a time, for the memory that they take."""
    place: RoomPlace | None = None

    def wait(resume: Resume) -> None:
        nonlocal place
        place = find_place(resume)
        place.enter()

    try:
        yield wait
        request = yield from elsewhere(world, decode_at_length, entry, body, ctx.version)
        if isinstance(request, Exception):
            raise request
        work = entry.handle(ctx, request)
        if work is not None:
            yield from work
    finally:
        if place is not None:
            place.leave()


class Registry:
    """The handlers of one kind of listener, by API key."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self._by_key: dict[int, Registered] = {}

    def add(self, api: Api, handle: Handle) -> None:
        if api.key in self._by_key:
            raise ValueError(f"API {api.key} is registered twice for {self.role.value}")
        self._by_key[api.key] = Registered(
            api, handle, api.decode or api.request.decode, *api.versions, api.request.FLEXIBLE, api.most_bytes
        )

    def replace(self, key: int, handle: Handle, decode: Decode) -> Registered:
        """Replaces the handler of an API from the next request on. Returns the old entry, so that it can be
        restored."""
        before = self._by_key[key]
        self._by_key[key] = replace(before, handle=handle, decode=decode)
        return before

    def find(self, key: int) -> Registered | None:
        return self._by_key.get(key)

    def advertised(self) -> list[tuple[int, int, int]]:
        """(key, lowest, highest version), by key."""
        return [
            (key, api.versions[0] if api.advertised_min is None else api.advertised_min, api.versions[1])
            for key, api in ((key, entry.api) for key, entry in sorted(self._by_key.items()))
        ]
