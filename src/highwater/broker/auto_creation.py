"""Creates topics because a client asked for their metadata. There is one request to the controller per topic at a
time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from highwater.broker.controller_channel import ControllerChannel
from highwater.errors import Code, code_of
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.world import World

PATIENCE_SECONDS = 1.0
"""How long the first request for a topic waits. A later request waits for the rest of that time."""
MOST_AT_A_TIME = 1000
"""The most topics that are being created at a time. For further ones a client has to ask again."""
_log = logging.getLogger(__name__)


class _Waiting:
    __slots__ = ("done", "names", "refused")

    def __init__(self, names: set[str], done: Callable[[Mapping[str, Code]], None]) -> None:
        self.names = names
        self.done = done
        self.refused: dict[str, Code] = {}


class AutoCreation:
    """Kafka answers such a request at once, and the client asks again. Here the response waits a moment for a topic
    that is being created, so that most clients need not ask again. If no controller can create it, the response does
    not wait."""

    def __init__(
        self,
        world: World,
        controller: ControllerChannel,
        timeout_ms: Callable[[], int],
        is_known: Callable[[str], bool],
    ) -> None:
        self._clock = world.clock
        self._failures = world.failures
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._is_known = is_known
        self._asked: dict[str, float] = {}
        """Topics that the controller was asked to create, with the time. An entry ends with the controller's answer."""
        self._waiting: dict[int, _Waiting] = {}
        self._count = 0
        controller.on_unreached = self.settle

    def want(
        self, topics: Sequence[CreatableTopic], done: Callable[[Mapping[str, Code]], None]
    ) -> Callable[[], None] | None:
        """Calls `done` once, with the refused topics: when all of these topics are known here or refused, or after a
        moment.

        Returns a function that ends the wait, or None if there was nothing to wait for.
        """
        now = self._clock.monotonic()
        new = [topic for topic in topics if topic.name not in self._asked]
        self._ask(new[: max(MOST_AT_A_TIME - len(self._asked), 0)], now)
        asked = {topic.name: self._asked[topic.name] for topic in topics if topic.name in self._asked}
        begun = min(asked.values(), default=now)
        if not self._controller.reaches_controller or not asked or now >= begun + PATIENCE_SECONDS:
            done({})
            return None
        self._count += 1
        number = self._count
        self._waiting[number] = _Waiting(set(asked), done)
        self._clock.call_later(begun + PATIENCE_SECONDS - now, self._end, number)
        return lambda: self._end(number)

    def settle(self) -> None:
        """Newer metadata is applied, or the controller cannot be reached."""
        for number, waiting in list(self._waiting.items()):
            waiting.names = {name for name in waiting.names if not self._is_known(name)}
            if waiting.names <= waiting.refused.keys() or not self._controller.reaches_controller:
                self._end(number)

    def _ask(self, topics: Sequence[CreatableTopic], now: float) -> None:
        if not topics:
            return
        names = [topic.name for topic in topics]
        self._asked |= dict.fromkeys(names, now)
        timeout_ms = self._timeout_ms()
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms)

        def answered(answer: CreateTopicsResponse | None) -> None:
            for name in names:
                self._asked.pop(name, None)
            self._answered({} if answer is None else {each.name: each.error_code for each in answer.topics}, names)
            for each in () if answer is None else answer.topics:
                if each.error_code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                    code = code_of(each.error_code).name
                    if self._failures.is_news(f"topics cannot be created: {code}"):
                        # A client chose the name, and the message may quote it. Both are cut and quoted, and one line
                        # stands for many: a client can neither fill the log nor forge a line in it.
                        _log.warning("topic %.260r cannot be created: %s %.500r", each.name, code, each.error_message)

        self._controller.ask(request, CreateTopicsResponse, answered, timeout_ms / 1000)

    def _answered(self, codes: Mapping[str, int], names: Sequence[str]) -> None:
        """Requests wait until created topics are known here. Refused topics are noted at once."""
        refused = {
            name: code_of(codes.get(name, Code.REQUEST_TIMED_OUT))
            for name in names
            if codes.get(name, Code.REQUEST_TIMED_OUT) not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS)
        }
        for waiting in self._waiting.values():
            waiting.refused |= {name: code for name, code in refused.items() if name in waiting.names}
        self.settle()

    def _end(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting.done(waiting.refused)
