"""Machines of a network of their own, on one switch: each is a network namespace with an address, and its links can be
cut, slowed and made to lose packets.

All of it is made by `ip` and `tc` in namespaces that are removed in the end. Nothing outside of them is touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

NAMES = Path("/run/netns")
DEVICE = "eth0"
NOBODY = "02:00:00:00:00:fe"
"""A hardware address that no machine has."""
_PREFIX = "hw"
_NEW_NETWORK = 0x40000000
_MAKE_TUN = 0x400454CA
_PACKETS_ALONE = 0x0001 | 0x1000
TUN = Path("/dev/net/tun")
_libc = ctypes.CDLL(None, use_errno=True)


def why_not() -> str | None:
    """Why there can be no machines here; None if there can."""
    missing = [tool for tool in ("ip", "tc", "nsenter") if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} missing: run `make setup`"
    name = f"{_PREFIX}-{os.getpid()}-try"
    try:
        _run("ip", "netns", "add", name)
    except OSError as failed:
        return f"no network namespaces can be made here: {failed}"
    try:
        _run("ip", "-n", name, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", name, "link", "add", "port", "type", "veth", "peer", "name", DEVICE)
    except OSError as failed:
        return f"no machines can be joined here: {failed}"
    finally:
        _run("ip", "netns", "del", name)
    return None


class Machine:
    """One machine, by its namespace and its address."""

    def __init__(self, namespace: str, address: str) -> None:
        self.namespace = namespace
        self.address = address

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread is on the machine: sockets that it opens, and threads that it starts, stay there."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(NAMES / self.namespace, os.O_RDONLY)
        try:
            _enter(there)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(there)
            os.close(home)

    def command(self, *words: str) -> list[str]:
        """This command, as one of this machine."""
        return ["nsenter", f"--net={NAMES / self.namespace}", *words]

    def ip(self, *words: str) -> None:
        _run("ip", "-n", self.namespace, *words)

    def blackhole(self, other: Machine) -> None:
        """What this machine sends to the other reaches nobody."""
        self.ip("neigh", "replace", other.address, "lladdr", NOBODY, "dev", DEVICE, "nud", "permanent")

    def forget(self, other: Machine) -> None:
        """It asks for the other's hardware address anew."""
        self.ip("neigh", "del", other.address, "dev", DEVICE)

    def slow(self, rate: str) -> str | None:
        """What it sends goes at this rate. Returns why not, where the kernel has no such queue."""
        words = ["tc", "-n", self.namespace, "qdisc", "replace", "dev", DEVICE, "root", "tbf"]
        done = subprocess.run(
            [*words, "rate", rate, "burst", "16kb", "latency", "400ms"], capture_output=True, text=True, check=False
        )
        return None if done.returncode == 0 else f"no tbf here: {done.stderr.strip()}"

    @property
    def held_back(self) -> int:
        """How often its queue had to wait for its rate."""
        shown = _run("tc", "-n", self.namespace, "-s", "qdisc", "show", "dev", DEVICE)
        return int(shown.partition("overlimits ")[2].split()[0])

    def quicken(self) -> None:
        _run("tc", "-n", self.namespace, "qdisc", "del", "dev", DEVICE, "root")

    def tunnel(self, name: str) -> int:
        """A TUN device: what the machine sends through it is read from the descriptor, and the other way round."""
        with self.inside():
            tunnel = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(tunnel, _MAKE_TUN, struct.pack("16sH22x", name.encode(), _PACKETS_ALONE))
        self.ip("link", "set", name, "up")
        return tunnel


class Lan:
    """So many machines on a switch, which is a namespace with a bridge."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._switch = f"{_PREFIX}-{os.getpid()}-switch"
        self.machines: list[Machine] = []

    def __enter__(self) -> Self:
        _remove_those_of_the_dead()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        _run("ip", "netns", "add", self._switch)
        _run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", self._switch, "link", "set", "bridge", "up")
        for number, address in enumerate(self._addresses):
            machine = Machine(f"{_PREFIX}-{os.getpid()}-{number}", address)
            _run("ip", "netns", "add", machine.namespace)
            self.machines.append(machine)
            port = self._port(machine)
            ends = ["type", "veth", "peer", "name", DEVICE, "netns", machine.namespace]
            _run("ip", "-n", self._switch, "link", "add", port, *ends)
            _run("ip", "-n", self._switch, "link", "set", port, "master", "bridge", "up")
            machine.ip("address", "add", f"{address}/24", "dev", DEVICE)
            machine.ip("link", "set", DEVICE, "up")
            machine.ip("link", "set", "lo", "up")

    def _remove(self) -> None:
        for machine in self.machines:
            _run("ip", "netns", "del", machine.namespace)
        if (NAMES / self._switch).exists():
            _run("ip", "netns", "del", self._switch)

    def unplug(self, machine: Machine) -> None:
        """As if its cable were pulled out."""
        _run("ip", "-n", self._switch, "link", "set", self._port(machine), "down")

    def plug(self, machine: Machine) -> None:
        _run("ip", "-n", self._switch, "link", "set", self._port(machine), "up")

    def _port(self, machine: Machine) -> str:
        return f"port{self.machines.index(machine)}"


class LossyLink(threading.Thread):
    """A relay between two machines that loses every n-th packet: all that they send each other goes through it."""

    NAME = "lossy"

    def __init__(self, one: Machine, other: Machine, every: int) -> None:
        super().__init__(name="lossy link", daemon=True)
        self._pair = (one, other)
        self._every = every
        self._ends: list[int] = []
        self._ended, self._ending = os.pipe()
        self.passed = 0
        self.lost = 0

    def __enter__(self) -> Self:
        one, other = self._pair
        self._ends = [one.tunnel(self.NAME), other.tunnel(self.NAME)]
        one.ip("route", "add", other.address, "dev", self.NAME, "src", one.address)
        other.ip("route", "add", one.address, "dev", self.NAME, "src", other.address)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        """The devices end with their descriptors, and the routes with the devices."""
        os.write(self._ending, b".")
        self.join()
        for each in (*self._ends, self._ended, self._ending):
            os.close(each)

    def run(self) -> None:
        over = dict(zip(self._ends, reversed(self._ends), strict=True))
        while True:
            readable, _, _ = select.select([*self._ends, self._ended], [], [])
            if self._ended in readable:
                return
            for end in readable:
                self._relay(end, over[end])

    def _relay(self, end: int, other: int) -> None:
        with contextlib.suppress(BlockingIOError):
            packet = os.read(end, 65_536)
            if (self.passed + self.lost) % self._every == self._every - 1:
                self.lost += 1
                return
            os.write(other, packet)
            self.passed += 1


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _NEW_NETWORK) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _remove_those_of_the_dead() -> None:
    """Those of runs that were killed."""
    for path in NAMES.glob(f"{_PREFIX}-*-*") if NAMES.is_dir() else ():
        if not Path(f"/proc/{path.name.split('-')[1]}").exists():
            _run("ip", "netns", "del", path.name)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
