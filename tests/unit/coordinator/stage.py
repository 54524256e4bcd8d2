"""One partition with a machine on it, in the simulated world: a map that is written through the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from highwater.coordinator.coordinator import Coordinator
from highwater.coordinator.tenure import Tenure, TenureState
from highwater.effects import Answer, Effect, Now, Record, Token, Write
from highwater.errors import Code
from highwater.log.appended import Origin
from highwater.model import NodeId
from highwater.net.deadlines import DeadlineQueue
from highwater.partition.partition import Partition
from highwater.replication.follower_progress import Contact
from highwater.sim import Simulation
from highwater.wire import records
from highwater.wire.codec import Malformed, Struct
from highwater.wire.messages.heartbeat_response import HeartbeatResponse
from highwater.wire.records.append import Validated
from tests.unit.log.bench import Bench, settings
from tests.unit.partition.hosting import alone

ME, OTHER = NodeId(1), NodeId(2)
COMMIT_SECONDS = 5.0


class Promise:
    """A caller waits for a write."""

    def __init__(self, ledger: Ledger, key: bytes, value: bytes | None) -> None:
        self.ledger = ledger
        self.record = Record(key, value)

    def committed(self, now: Now) -> None:
        self.ledger.replay(*self.record)

    def failed(self, code: Code, now: Now) -> None: ...

    def overdue(self, code: Code, now: Now) -> None: ...


class Ledger:
    """A machine as plain as can be: keys and their values, and one alarm."""

    def __init__(self, most_bytes: Callable[[], int]) -> None:
        self.most_bytes = most_bytes
        self.values: dict[bytes, bytes] = {}
        self.held: dict[int, dict[bytes, bytes | None]] = {}
        self.open: dict[Write, str] = {}
        self.events: list[str] = []
        self.alarm: float | None = None
        self.then: dict[bytes, Write] = {}
        """What is written when a key is committed."""
        self.pieces: list[bytes] = []
        """Keys that are written one at a time."""
        self.rooms: list[int] = []
        self.expirations = 0
        self.mistakes = 0
        """How often it is still to fail where time brings something, or a piece is due."""

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1) -> None:
        if key == b"unreadable":
            raise Malformed("unreadable")
        if key == b"mistaken":
            raise ZeroDivisionError("a mistake")
        if key == b"due" and value is not None:
            self.pieces.append(value)
        elif producer_id != -1:
            self.held.setdefault(producer_id, {})[key] = value
        elif value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        held = self.held.pop(producer_id, {})
        for key, value in held.items() if commit else ():
            self.replay(key, value)

    def loaded(self, now: Now) -> list[Effect]:
        self.events.append("loaded")
        return []

    def put(self, key: bytes, value: bytes | None) -> Write:
        write = Write((Record(key, value),), Promise(self, key, value))
        self.open[write] = key.decode()
        return write

    @property
    def is_behind(self) -> bool:
        return bool(self.pieces)

    def _mistake(self) -> None:
        if self.mistakes:
            self.mistakes -= 1
            raise ZeroDivisionError("a mistake")

    def proceed(self, now: Now) -> list[Effect]:
        self._mistake()
        self.rooms.append(self.most_bytes())
        return [self.put(self.pieces.pop(0), b"v")]

    @property
    def next_deadline(self) -> float | None:
        return self.alarm

    def expired(self, now: Now) -> list[Effect]:
        self._mistake()
        self.expirations += 1
        if self.alarm is not None and self.alarm <= now.monotonic:
            self.events.append(f"alarm at {self.alarm:.0f}")
            self.alarm = None
        return []

    def committed(self, write: Write, now: Now) -> list[Effect]:
        name = self.open.pop(write)
        write.then.committed(now)
        following = self.then.pop(name.encode(), None)
        return [Answer(f"{name} committed", HeartbeatResponse()), *([] if following is None else [following])]

    def failed(self, write: Write, code: Code, now: Now) -> list[Effect]:
        return [Answer(f"{self.open.pop(write)} failed: {code.name}", HeartbeatResponse())]

    def overdue(self, write: Write, now: Now) -> list[Effect]:
        return [Answer(f"{self.open[write]} overdue", HeartbeatResponse())]

    def resigned(self, now: Now) -> list[Effect]:
        return [Answer(f"{name} resigned", HeartbeatResponse()) for name in self.open.values()]


class Stage:
    """As a context manager: the end closes the simulation."""

    def __init__(self, codec: int = 0, **changes: object) -> None:
        self.sim = Simulation(1)
        self.world = self.sim.world("n")
        self.sim.storage("n").provide(PurePath("/data"))
        self.codec = codec
        self.answers: list[str] = []
        self.after_answer: Callable[[], None] = lambda: None
        self.coordinator: Coordinator[Ledger]
        self.partition: Partition
        self.sim.run(self.world.perform(self._open(changes)))

    async def _open(self, changes: dict[str, object]) -> None:
        bench = Bench(self.world, PurePath("/data"), settings(**changes))
        self.partition = Partition(await bench.create(), alone())
        self.coordinator = Coordinator(
            "orders",
            self.world,
            DeadlineQueue(self.world.clock),
            Ledger,
            self._answered,
            lambda: COMMIT_SECONDS,
            self.codec,
        )

    def _answered(self, token: Token, response: Struct) -> None:
        self.answers.append(str(token))
        self.after_answer()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.sim.close()

    def append(self, data: bytearray) -> None:
        """As an earlier leader would have written it."""
        batch = Validated(data, records.read_header(data), -1)
        self.world.call(self.partition.log.append_as_leader, batch, 0, Origin.COORDINATOR)

    def lead(self, epoch: int = 1, isr: tuple[NodeId, ...] = (ME,)) -> None:
        replicas = (ME,) if isr == (ME,) else (ME, OTHER)
        self.world.call(self.partition.lead, ME, epoch, epoch, replicas, isr, {})
        self.world.call(self.coordinator.role_changed, self.partition)

    def step_down(self, epoch: int) -> None:
        self.world.call(self.partition.step_down, OTHER, epoch, epoch, (ME, OTHER))
        self.world.call(self.coordinator.role_changed, self.partition)

    def loaded(self) -> Tenure[Ledger]:
        self.until(lambda: next(self.coordinator.active, None) is not None)
        (tenure,) = self.coordinator.active
        assert tenure.state is TenureState.ACTIVE
        return tenure

    def follower_has(self, end: int) -> None:
        self.world.call(self.partition.follower_fetched, OTHER, end, 0, -1, Contact(0.0))

    def put(self, key: bytes, value: bytes | None = b"v") -> None:
        (tenure,) = self.coordinator.active
        self.world.call(lambda: tenure.carry_out([tenure.machine.put(key, value)]))

    def until(self, condition: Callable[[], bool]) -> None:
        self.sim.run(self.sim.until(condition))
