"""A relay between clients and a node that keeps what the clients sent."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

from highwater.net.header import HeaderReader, after_tags
from highwater.wire import produce

PRODUCE = 0


class Recorder:
    """Listens on a port of its own and passes everything on; `close` ends it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]
        self._sent: list[bytearray] = []

    def pass_on_to(self, port: int) -> None:
        threading.Thread(target=self._accept, args=(port,), daemon=True).start()

    def _accept(self, port: int) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            try:
                server = socket.create_connection(("127.0.0.1", port))
            except OSError:
                client.close()
                continue
            self._sockets.append(server)
            kept = bytearray()
            self._sent.append(kept)
            for source, target, into in ((client, server, kept), (server, client, None)):
                threading.Thread(target=self._pump, args=(source, target, into), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, into: bytearray | None) -> None:
        try:
            while data := source.recv(65536):
                if into is not None:
                    into += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def produced(self) -> Iterator[tuple[int, int, memoryview]]:
        """(version, partition, records) of all Produce requests so far, in order within each connection."""
        for connection in self._sent:
            view, at = memoryview(bytes(connection)), 0
            while at + 4 <= len(view):
                (size,) = struct.unpack_from(">i", view, at)
                frame = view[at + 4 : at + 4 + size]
                at += 4 + size
                if at > len(view):
                    break  # its rest is on the way
                key, version, _, body = HeaderReader().read(frame)
                if key != PRODUCE:
                    continue
                if version >= produce.FLEXIBLE:
                    body = after_tags(frame, body)
                for _, partitions in produce.decode_request(frame[body:], version).topics:
                    for partition, records in partitions:
                        assert records is not None
                        yield version, partition, records
