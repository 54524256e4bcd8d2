"""Topics that are made because somebody asked about them, each asked of the controller once at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from highwater.broker.controller_channel import ControllerChannel
from highwater.errors import Code, code_of
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.world import Clock

PATIENCE_SECONDS = 1.0
"""How long whoever asked first is kept waiting; one who asks later waits for what is left of it."""
MOST_AT_A_TIME = 1000
"""Topics that are asked for and not there yet. Who asks for more asks again."""
_log = logging.getLogger(__name__)


class _Waiting:
    __slots__ = ("names", "refused", "told")

    def __init__(self, names: set[str], told: Callable[[Mapping[str, Code]], None]) -> None:
        self.names = names
        self.told = told
        self.refused: dict[str, Code] = {}


class AutoCreation:
    """Kafka answers such questions at once and has the client ask again. Here the answer waits a moment for a topic
    that is being made, so that most clients need not; where nobody can make it, it does not wait."""

    def __init__(
        self,
        clock: Clock,
        controller: ControllerChannel,
        timeout_ms: Callable[[], int],
        is_known: Callable[[str], bool],
    ) -> None:
        self._clock = clock
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._is_known = is_known
        self._asked: dict[str, float] = {}
        """Since when, by name: until the controller has answered or the time for it is over."""
        self._waiting: dict[int, _Waiting] = {}
        self._count = 0
        controller.on_unreached = self.settle

    def want(
        self, topics: Sequence[CreatableTopic], told: Callable[[Mapping[str, Code]], None]
    ) -> Callable[[], None] | None:
        """`told` once: when all of these topics are known here or refused, with the refusals, or after a moment.

        What is returned gives up waiting; None where there was nothing to wait for.
        """
        now = self._clock.monotonic()
        new = [topic for topic in topics if topic.name not in self._asked]
        self._ask(new[: max(MOST_AT_A_TIME - len(self._asked), 0)], now)
        asked = {topic.name: self._asked[topic.name] for topic in topics if topic.name in self._asked}
        begun = min(asked.values(), default=now)
        if not self._controller.reaches_controller or not asked or now >= begun + PATIENCE_SECONDS:
            told({})
            return None
        self._count += 1
        number = self._count
        self._waiting[number] = _Waiting(set(asked), told)
        self._clock.call_later(begun + PATIENCE_SECONDS - now, self._end, number)
        return lambda: self._end(number)

    def settle(self) -> None:
        """Newer metadata is applied, or the controller is not reached."""
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
                    # A client chose the name, and the message may quote it: neither fills the log, nor forges a line.
                    _log.warning("topic %.260r cannot be created: %s %.500r", each.name, code, each.error_message)

        self._controller.ask(request, CreateTopicsResponse, answered, timeout_ms / 1000)

    def _answered(self, codes: Mapping[str, int], names: Sequence[str]) -> None:
        """Those that were made are waited for until they are known here; those that were not are told at once."""
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
            waiting.told(waiting.refused)
