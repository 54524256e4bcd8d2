"""One poller for all viewers: however many watch, the cluster is asked at one pace, and each answer goes to all.

Some rounds run beside each other, so that a broker that does not answer one question holds up no other: the statuses
of nodes, what Kafka's protocol says, the groups, and what moves. Lanes have a round of their own for each
partition that is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from highwater.client import ClientFailure
from highwater.console.cluster_reader import ClusterReader
from highwater.errors import KafkaError

STATUS_SECONDS: Final = 1.0
LANE_SECONDS: Final = 0.2
HISTORY_SECONDS: Final = 15.0
"""How often the lag of groups is noted while nobody watches."""
HEARTBEAT_SECONDS: Final = 15.0

_log = logging.getLogger(__name__)

View = tuple[str, ...]
"""`("overview",)`, `("topics",)`, `("topic", name)`, `("groups",)`, `("group", name)`, `("moves",)`, `("pipelines",)`
or `("lanes", topic, index)`."""


class Board:
    """The newest text of one view, for all its viewers."""

    def __init__(self) -> None:
        self.viewers = 0
        self.text = ""
        self.changed = asyncio.Event()
        self.lanes: asyncio.Task[None] | None = None
        self.mistake = ""
        """It is logged once."""

    def show(self, text: str) -> None:
        if text != self.text:
            self.text = text
            self.changed.set()
            self.changed = asyncio.Event()


class Poller:
    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader
        self._boards: dict[View, Board] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._woken = [asyncio.Event() for _ in range(5)]

    def start(self) -> None:
        rounds = (self._ask_statuses, self._ask_cluster, self._ask_groups, self._ask_moves, self._ask_pipelines)
        self._tasks = [
            asyncio.create_task(self._repeat(ask, woken)) for ask, woken in zip(rounds, self._woken, strict=True)
        ]

    async def stop(self) -> None:
        tasks = self._tasks + [board.lanes for board in self._boards.values() if board.lanes is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def watch(self, view: View) -> AsyncIterator[str]:
        """The view as JSON, again whenever it changed. An empty text is sent now and then, so that a viewer that is
        gone is noticed."""
        board = self._boards.setdefault(view, Board())
        board.viewers += 1
        if view[0] == "lanes" and board.lanes is None:
            board.lanes = asyncio.create_task(self._draw(board, view[1], int(view[2])))
        for each in self._woken:
            each.set()
        try:
            last = ""
            if not board.text and view[0] != "lanes":
                self._render(view, board)
            while True:
                changed = board.changed
                if board.text != last:
                    last = board.text
                    yield last
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield ""
        finally:
            self._leave(view, board)

    def _leave(self, view: View, board: Board) -> None:
        board.viewers -= 1
        if board.viewers == 0 and self._boards.get(view) is board:
            del self._boards[view]
            if board.lanes is not None:
                board.lanes.cancel()

    @property
    def _is_watched(self) -> bool:
        return any(view[0] != "lanes" for view in self._boards)

    def _ask_statuses(self) -> float:
        topics = frozenset(view[1] for view in list(self._boards) if view[0] == "topic")
        if self._boards or not self._reader.statuses:
            self._reader.ask_statuses(topics)
        return self._reader.status_seconds(topics)

    def _ask_cluster(self) -> float:
        self._reader.ask_cluster()
        return STATUS_SECONDS

    def _ask_groups(self) -> float:
        self._reader.ask_groups()
        return STATUS_SECONDS

    def _ask_moves(self) -> float:
        if ("moves",) in self._boards:
            self._reader.ask_moves()
        return STATUS_SECONDS

    def _ask_pipelines(self) -> float:
        if ("pipelines",) in self._boards:
            self._reader.ask_pipelines()
        return STATUS_SECONDS

    async def _repeat(self, ask: Callable[[], float], woken: asyncio.Event) -> None:
        """A round begins a period after the one before it began. While nobody watches, it waits for a viewer."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            woken.clear()
            seconds = await self._asked(ask)
            for view, board in list(self._boards.items()):
                if view[0] != "lanes":
                    self._render(view, board)
            if not self._is_watched:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), HISTORY_SECONDS)
            await asyncio.sleep(max(begun + seconds - loop.time(), 0.05))

    async def _asked(self, ask: Callable[[], float]) -> float:
        """How long until the next one."""
        try:
            return await asyncio.to_thread(ask)
        except Exception:  # noqa: BLE001 - a mistake in one round must not end all later ones
            _log.exception("a round of questions failed")
            return STATUS_SECONDS

    async def _draw(self, board: Board, topic: str, index: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            board.show(await asyncio.to_thread(self._lanes, topic, index))
            took = loop.time() - begun
            await asyncio.sleep(max(LANE_SECONDS - took, took, 0.02))

    def _lanes(self, topic: str, index: int) -> str:
        try:
            lanes = self._reader.lanes(topic, index)
        except (KafkaError, ClientFailure) as failure:
            return text_of({"error": str(failure)})
        except Exception as mistake:  # noqa: BLE001 - a mistake in one round must not end all later ones
            _log.exception("the lanes of %s-%d could not be drawn", topic, index)
            return text_of({"error": f"the console could not draw this: {mistake}"})
        if lanes is None:
            return text_of({"error": self._reader.why_no_lanes(topic, index)})
        return text_of(lanes)

    def _render(self, view: View, board: Board) -> None:
        """What cannot be drawn, as what a node of another version says, leaves the last picture and later rounds."""
        try:
            board.show(self._rendered(view))
        except Exception as mistake:  # noqa: BLE001 - a mistake in one picture must not end all later ones
            if board.mistake != repr(mistake):
                board.mistake = repr(mistake)
                _log.exception("the view %s could not be drawn", " ".join(view))

    def _rendered(self, view: View) -> str:
        """Nothing until the cluster has answered."""
        reader = self._reader
        if not reader.is_known(view[0]):
            return ""
        match view:
            case ("overview",):
                return text_of(reader.overview())
            case ("topics",):
                return text_of(reader.topic_list())
            case ("topic", name):
                return text_of(reader.topic(name))
            case ("moves",):
                return text_of(reader.moves())
            case ("pipelines",):
                return text_of(reader.pipelines.view())
            case ("groups",):
                return text_of(reader.group_list())
            case ("group", name):
                return text_of(reader.group(name))
        raise ValueError(f"no such view: {view}")


def text_of(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
