"""The process of one node of a cluster. `ProcessHost` starts it, and controls it over an inherited socket. It is never
started by hand."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Sequence
from typing import Any

from highwater.cluster.garbage import leave_what_is_there
from highwater.cluster.steered import SteeredNode
from highwater.model import Endpoint, NodeId
from highwater.world.descriptors import raise_limit
from highwater.world.real import new_event_loop

LINE_LIMIT = 16 << 20


class Child:
    """Lines of JSON: commands and decisions of the controlling process come in; answers, questions and the node's state
    go out."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asked: dict[int, Callable[[int | None], None]] = {}
        self._questions = 0
        self._has_reported_logs = False
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def live(self) -> int:
        loop = asyncio.get_running_loop()
        begin = json.loads(await self._reader.readline())
        peers = {Endpoint(host, port): NodeId(node) for host, port, node in begin["peers"]}
        node = SteeredNode(loop, begin["properties"], peers, self._arbiter, self._failed, self._opens_logs)
        for verb, argument in begin["commands"]:
            node.obey(verb, argument)
        orders = loop.create_task(self._take_orders(node))
        starting = loop.create_task(node.start())
        starting.add_done_callback(self._started)
        loop.add_signal_handler(signal.SIGTERM, self._end, 0)
        code = await self._ended
        if code == 0:
            await node.stop()
        orders.cancel()
        return code

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    def _opens_logs(self) -> None:
        """Called with each step, but reported only once."""
        if not self._has_reported_logs:
            self._has_reported_logs = True
            self._say({"opens logs": True})

    def _started(self, starting: asyncio.Task[None]) -> None:
        if starting.cancelled():
            return
        failed = starting.exception()
        if failed is not None:
            self._failed(failed)
            return
        leave_what_is_there()
        self._say({"ready": True})

    def _failed(self, why: BaseException) -> None:
        logging.getLogger("highwater").critical("the node stops", exc_info=why)
        self._say({"failed": f"{type(why).__name__}: {why}"})
        self._end(1)

    def _say(self, line: dict[str, Any]) -> None:
        self._writer.write(json.dumps(line).encode() + b"\n")

    def _arbiter(self, rules: Sequence[int], settle: Callable[[int | None], None]) -> None:
        self._questions += 1
        self._asked[self._questions] = settle
        self._say({"ask": self._questions, "rules": list(rules)})

    async def _take_orders(self, node: SteeredNode) -> None:
        while text := await self._reader.readline():
            line = json.loads(text)
            if "settle" in line:
                self._asked.pop(line["settle"])(line["rule"])
                continue
            try:
                answer = {"re": line["id"], "value": node.obey(line["verb"], line["argument"])}
            except ValueError as wrong:
                answer = {"re": line["id"], "error": str(wrong)}
            self._say(answer)
        os._exit(1)  # the controlling process is gone, so no process would ever stop this node


async def _live(steering: socket.socket) -> int:
    reader, writer = await asyncio.open_connection(sock=steering, limit=LINE_LIMIT)
    code = await Child(reader, writer).live()
    writer.close()
    return code


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    steering = socket.socket(fileno=int(sys.argv[1]))
    raise_limit()
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    code = loop.run_until_complete(_live(steering))
    logging.shutdown()
    os._exit(code)


if __name__ == "__main__":
    main()
