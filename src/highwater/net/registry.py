"""How an API is declared, and which of them a listener answers. ApiVersions is computed from here, so it cannot
disagree with the code."""

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
from highwater.net.turns import Work
from highwater.wire.codec import Message
from highwater.wire.messages import index
from highwater.world import Disk, Step

Handle = Callable[[RequestContext, Any], Work | None]
"""(context, decoded request): answers through the context, now or later. Runs on the loop, never blocks; what grows
with the request is given back as work, which is done by turns."""

Decode = Callable[[memoryview, int, int], Any]
"""(body, version, most elements) -> request; raises wire.codec.Malformed, and TooMany where it has more."""

Refuse = Callable[[Any, Code, int], Message | None]
"""(request as it was decoded, error, version) -> the answer that says nothing but this error: each topic, partition or
group that the request names gets it, where the answer has them. None where no answer is expected: the connection is
closed instead."""


ELEMENTS_AT_ONCE: Final = 500
"""Array elements that a request may have to be decoded on the loop, in some milliseconds at most."""
MOST_ELEMENTS: Final = 100_000
"""What the arrays of any request may hold, all together: more would take too much memory."""
ELEMENTS_IN_ONE_GO: Final = 2_000
"""What they may hold where a handler does all in one go."""
MANY_ELEMENTS: Final = 5_000
"""The same where so many are of use: that takes 30 ms at most."""
MOST_BYTES: Final = 8 << 20
"""What a request may have: over 30 000 topics of the longest names, and as much as one change of the metadata holds.
Elements may be few and long. They are copied when they are decoded, and again when they are passed on."""
MANY_BYTES: Final = 32 << 20
"""The same where MANY_ELEMENTS bring 4 KiB of metadata each, as many as offset.metadata.max.bytes allows, and where a
leader tells all members of its group what is theirs."""
ANY_BYTES: Final = 2**31
"""For the records that clients carry through us. socket.request.max.bytes is the bound."""


class Role(Enum):
    BROKER = "broker"
    CONTROLLER = "controller"


def _never(request: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Api:
    """One API, declared once: as `API` beside its `handle`, in a file that is named for its key.

    The package of that file says which listener answers it. All else follows from the declaration: what a listener
    dispatches, decodes and advertises, what brokers pass on to the controller, how a request is refused when nobody
    can be asked, and which requests of it a test can have fail.
    """

    key: int
    versions: tuple[int, int]
    request: type[Message]
    advertised_min: int | None = None
    """Lower than what is handled only for Produce: see KAFKA-18659 in docs/divergence.md."""
    most_elements: int = ELEMENTS_IN_ONE_GO
    """What its arrays may hold, all together: MOST_ELEMENTS where its handler gives way."""
    most_bytes: int = MOST_BYTES
    """What its frame may have; a larger one ends its connection before it is decoded."""
    decode: Decode | None = None
    """A flat decoder for the hot path; None takes the request message's own."""
    forwarded: bool = False
    """Of the controller's APIs: brokers answer it too, and pass it on to the active controller (KIP-590)."""
    refuse: Refuse | None = None
    """How all of a request is refused. None where its answer has an error code of its own, and needs no more."""
    exempt: Callable[[Any], bool] = _never
    """Requests that meet no injected error."""

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
    """An API with the function that answers it: it takes a part of the node first, and then what `Handle` takes."""

    api: Api
    handle: Callable[..., Work | None]


_HANDLER_FILE: Final = re.compile(r"k\d\d_\w+")


def handlers_of(package: ModuleType) -> tuple[Handler, ...]:
    """What the handler files of a package declare: each has an `API` and a `handle`."""
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
    """A job: a request of more elements than are decoded on the loop."""
    yield Step()
    return entry.decode(body, version, entry.api.most_elements)


class Registry:
    """The handlers of one listener role, by API key."""

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
        """Answer this API otherwise from the next request on; gives what was there, to put it back."""
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
