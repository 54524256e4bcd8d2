"""Answers that hold ranges of files: read as the socket drains, never wrong bytes."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.net.outbox import WINDOW
from highwater.net.stats import CloseReason
from highwater.sim import Knobs
from highwater.world import Buffer, Exhausted, File, FileSlice
from tests.unit.net.parties import Scene, ask

PATH = PurePath("/data/00000000000000000000.log")
CONTENT = bytes(range(251)) * 16_000


class Counting:
    """The file, counting the bytes read from it."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.path = file.path
        self.size = file.size
        self.bytes_read = 0

    def read_cached(self, pos: int, n: int) -> Buffer | None:
        data = self._file.read_cached(pos, n)
        self.bytes_read += 0 if data is None else len(data)
        return data

    def read(self, pos: int, n: int) -> Buffer:
        data = self._file.read(pos, n)
        self.bytes_read += len(data)
        return data


def opened(scene: Scene) -> File:
    scene.world.disk.mkdir(PATH.parent)
    file = scene.world.disk.open(PATH, create=True)
    if file.size == 0:
        file.append(CONTENT)
    return file


@pytest.mark.parametrize("cold", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_slices_arrive_byte_for_byte_between_the_other_parts(cold: float, seed: int) -> None:
    with Scene(seed, knobs=Knobs(cold_read=cold)) as scene:
        file = opened(scene)
        peer = scene.dial()
        peer.send(ask(0), ask(1), ask(2))
        scene.wait(lambda: len(scene.asked) == 3)
        scene.asked[1].respond_parts([b"plain"])
        scene.asked[2].respond_parts([FileSlice(file, 0, 0, lambda: True), FileSlice(file, 10, 5, lambda: True)])
        slices = [FileSlice(file, 7, 1_000_000, lambda: True), FileSlice(file, 2_000_000, 900_001, lambda: True)]
        scene.asked[0].respond_parts([b"head", slices[0], b"middle", slices[1], b"tail"])
        scene.wait(lambda: len(peer.frames) == 3)
        parts = [b"head", CONTENT[7:1_000_007], b"middle", CONTENT[2_000_000:2_900_001], b"tail"]
        assert [frame[4:] for frame in peer.frames] == [b"".join(parts), b"plain", CONTENT[10:15]]
        assert (scene.server.stats.file_reads_off_loop > 0) == (cold > 0)


def test_an_answer_given_during_a_read_off_the_loop_waits_for_it() -> None:
    with Scene(knobs=Knobs(cold_read=1.0)) as scene:
        file = opened(scene)
        peer = scene.dial()
        peer.send(ask(0), ask(1))
        scene.wait(lambda: len(scene.asked) == 2)
        scene.asked[0].respond_parts([FileSlice(file, 0, 1000, lambda: True)])
        scene.sim.run(scene.sim.sleep(0), until=lambda: scene.server.stats.file_reads_off_loop == 1)
        scene.asked[1].respond_parts([b"second"])
        scene.wait(lambda: len(peer.frames) == 2)
        assert [frame[4:] for frame in peer.frames] == [CONTENT[:1000], b"second"]
        assert scene.server.stats.file_reads_off_loop == 1


def test_a_consumer_that_stops_reading_costs_a_window_and_not_its_answers() -> None:
    with Scene() as scene:
        file = Counting(opened(scene))
        scene.asked.react = lambda ctx, body: ctx.respond_parts(
            [FileSlice(file, 0, len(CONTENT), lambda: True)]  # type: ignore[arg-type]
        )
        peer = scene.dial()
        peer.transport.pause_reading()
        peer.send(*(ask(n) for n in range(50)))
        scene.settle()
        stuck_at = file.bytes_read
        assert stuck_at <= 3 * WINDOW + 256 * 1024
        scene.settle()
        assert file.bytes_read == stuck_at
        peer.transport.resume_reading()
        scene.wait(lambda: len(peer.data) == 50 * (8 + len(CONTENT)))


@pytest.mark.parametrize("cold", [0.0, 1.0])
def test_a_slice_that_was_cut_off_closes_the_connection(cold: float) -> None:
    with Scene(knobs=Knobs(cold_read=cold)) as scene:
        file = opened(scene)
        intact = True
        peer = scene.dial()
        peer.transport.pause_reading()
        peer.send(ask(0))
        scene.wait(lambda: len(scene.asked) == 1)
        scene.asked[0].respond_parts([FileSlice(file, 0, len(CONTENT), lambda: intact)])
        scene.settle()
        file.truncate(1_500_000)
        file.append(b"\xff" * (len(CONTENT) - 1_500_000))
        intact = False
        peer.transport.resume_reading()
        scene.wait(lambda: peer.lost)
        assert CONTENT.startswith(peer.data[8:])
        assert scene.server.stats.closed[CloseReason.FILE] == 1


@pytest.mark.parametrize("cold", [0.0, 1.0])
def test_a_slice_beyond_the_end_of_its_file_closes_the_connection(cold: float) -> None:
    with Scene(knobs=Knobs(cold_read=cold)) as scene:
        file = opened(scene)
        peer = scene.dial()
        peer.send(ask(0))
        scene.wait(lambda: len(scene.asked) == 1)
        scene.asked[0].respond_parts([FileSlice(file, len(CONTENT) - 100, 101, lambda: True)])
        scene.wait(lambda: peer.lost)
        assert scene.server.stats.closed[CloseReason.FILE] == 1


class Unreadable(Counting):
    def read_cached(self, pos: int, n: int) -> Buffer | None:
        raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("cached", [True, False])
def test_a_failing_disk_closes_the_connection_and_is_reported(cached: bool, caplog: pytest.LogCaptureFixture) -> None:
    with Scene(knobs=Knobs(cold_read=1.0)) as scene:
        file = opened(scene)
        scene.sim.storage("server").fail("read", code=errno.EIO)
        peer = scene.dial()
        peer.send(ask(0))
        scene.wait(lambda: len(scene.asked) == 1)
        broken = Unreadable(file) if cached else file
        scene.asked[0].respond_parts([FileSlice(broken, 0, 1000, lambda: True)])  # type: ignore[arg-type]
        scene.wait(lambda: peer.lost)
        assert scene.server.stats.closed[CloseReason.FILE] == 1
        assert str(PATH) in caplog.text


class Exhausting(Counting):
    """There is no descriptor for its first two reads."""

    reads = 0

    def read(self, pos: int, n: int) -> Buffer:
        self.reads += 1
        if self.reads <= 2:
            raise Exhausted(errno.EMFILE, "Too many open files")
        return super().read(pos, n)


def test_a_read_without_a_descriptor_is_tried_again_and_the_response_stays_whole() -> None:
    with Scene(knobs=Knobs(cold_read=1.0)) as scene:
        file = Exhausting(opened(scene))
        peer = scene.dial()
        peer.send(ask(0))
        scene.wait(lambda: len(scene.asked) == 1)
        scene.asked[0].respond_parts([b"head", FileSlice(file, 10, 1000, lambda: True)])  # type: ignore[arg-type]
        scene.wait(lambda: len(peer.frames) == 1)
        assert peer.frames[0][4:] == b"head" + CONTENT[10:1010]
        assert file.reads == 3


def test_a_peer_that_leaves_during_a_read_off_the_loop_does_no_harm() -> None:
    with Scene(knobs=Knobs(cold_read=1.0)) as scene:
        file = opened(scene)
        peer = scene.dial()
        peer.send(ask(0))
        scene.wait(lambda: len(scene.asked) == 1)
        scene.asked[0].respond_parts([FileSlice(file, 0, len(CONTENT), lambda: True)])
        peer.transport.abort()
        scene.wait(lambda: scene.server.stats.connections == 0)
        scene.settle()
