"""Properties of a conversation that hold after every input of a random history: the leader's session knows exactly who
is fetched and where, and no fetch acknowledges what is not synced."""

from __future__ import annotations

from random import Random

import pytest

from highwater.errors import Code
from highwater.replication.conversation import MAX_EPOCH, Conversation, Fetch
from highwater.replication.follower import Ends, Follower, Row

KEYS = ("a", "b", "c", "d")
STEPS = 250


class Session:
    """As a leader keeps it: fetches come in the order in which they were sent."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.epoch = 0
        self.places: dict[str, int] = {}


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.talk: Conversation[str] = Conversation()
        self.ends = dict.fromkeys(KEYS, 0)
        self.durable = dict.fromkeys(KEYS, 0)
        self.syncs: list[tuple[str, Follower, int]] = []
        """Under way, and up to where."""
        self.session: Session | None = None
        self.sessions = 0
        self.has_room = self.random.random() < 0.8
        self.in_flight: list[tuple[int, Fetch[str]]] = []
        """With the session that the leader's answer will name."""
        self.paused: dict[str, Follower] = {}
        self.talk.begin_session()

    def step(self) -> None:
        inputs = (
            *[self.follow, self.unfollow, self.lose, self.refuse, self.resume, self.restate],
            *[self.append] * 4,
            *[self.answer] * 4,
            *[self.sync] * 3,
        )
        self.random.choice(inputs)()
        self.check()
        self.fetch()
        self.check()

    # Which leader is followed

    def follow(self) -> None:
        """In a new term, or for the first time."""
        key = self.random.choice(KEYS)
        self.paused.pop(key, None)
        self.talk.follow(key, Follower(5, 1.0))

    def unfollow(self) -> None:
        key = self.random.choice(KEYS)
        self.paused.pop(key, None)
        self.talk.unfollow(key)

    def append(self) -> None:
        """By the answer of a leader, or it fails, and the follower waits."""
        key = self.random.choice(KEYS)
        follower = self.talk.followers.get(key)
        if follower is None or not follower.fetches:
            return
        if self.random.random() < 0.2:
            follower.failed()
            self.paused[key] = follower
        else:
            before, self.ends[key] = self.ends[key], self.ends[key] + 1
            follower.appended(Row(), Ends(0, before), Ends(0, before + 1), 0)
        self.talk.note(key)

    def resume(self) -> None:
        for key, follower in list(self.paused.items()):
            del self.paused[key]
            if follower.resumed():
                self.talk.note(key)

    def restate(self) -> None:
        key = self.random.choice(KEYS)
        if key in self.talk.followers:
            self.talk.restate(key)

    def sync(self) -> None:
        """A sync ends. One that was begun for an earlier term changes nothing."""
        if not self.syncs:
            return
        key, follower, end = self.syncs.pop(self.random.randrange(len(self.syncs)))
        self.durable[key] = max(self.durable[key], end)
        before = self.talk.is_syncing
        self.talk.synced(key, follower)
        if self.talk.followers.get(key) is not follower:
            assert self.talk.is_syncing is before, "another term's sync says nothing"

    # Fetches

    def fetch(self) -> None:
        """As a fetcher does it: what would be named is synced first."""
        if not self.talk.is_due:
            return
        for key in self.talk.moved:
            if self.durable[key] < self.ends[key]:
                follower = self.talk.sync(key)
                if follower is not None:
                    self.syncs.append((key, follower, self.ends[key]))
        if self.talk.is_syncing:
            with pytest.raises(AssertionError):
                self.talk.fetch()
            return
        fetch = self.talk.fetch()
        assert len(self.in_flight) < 2, "one that waits, and one that overtakes it"
        assert not self.in_flight or self.session is not None, "nothing overtakes a fetch that begins a session"
        self.in_flight.append((self.arrived(fetch), fetch))

    def arrived(self, fetch: Fetch[str]) -> int:
        """At the leader, which has room for a session or not. The number of the session that it answers with."""
        if fetch.session_id == 0:
            assert fetch.session_epoch == 0
            self.sessions += 1
            self.session = Session(self.sessions if self.has_room else 0)
        session = self.session
        assert session is not None
        if fetch.session_id:
            assert (fetch.session_id, fetch.session_epoch) == (session.number, session.epoch), "out of step"
        session.epoch = session.epoch + 1 if session.epoch < MAX_EPOCH else 1
        for key in fetch.forgotten:
            session.places.pop(key, None)
            assert key not in fetch.named
        for key in fetch.named:
            session.places[key] = self.ends[key]
            assert self.durable[key] >= self.ends[key], "a power cut may still take that"
        fetching = {key for key, follower in self.talk.followers.items() if follower.fetches}
        assert set(session.places) == fetching, "the session has exactly those that are fetched"
        return session.number

    def answer(self) -> None:
        if not self.in_flight:
            return
        number, fetch = self.in_flight.pop(0)
        for key in fetch.named:
            follower = self.talk.followers.get(key)
            assert follower is None or follower.asked_last is None or follower.asked_last >= fetch.number
        self.talk.answered(number)
        self.talk.taken()
        if number == 0:
            self.session = None

    def refuse(self) -> None:
        """The whole fetch: the session is lost, or something else is."""
        if len(self.in_flight) == 1:
            self.in_flight.clear()
            self.session = None
            is_lost = self.random.random() < 0.5
            code = Code.FETCH_SESSION_ID_NOT_FOUND if is_lost else Code.UNKNOWN_SERVER_ERROR
            assert self.talk.refused(code) is is_lost

    def lose(self) -> None:
        """The connection; another is opened at once."""
        self.in_flight.clear()
        self.session = None
        self.has_room = self.random.random() < 0.8
        self.talk.lost()
        self.talk.begin_session()

    # Properties

    def check(self) -> None:
        talk = self.talk
        fetching = {key for key, follower in talk.followers.items() if follower.fetches}
        assert set(talk.moved) <= fetching
        assert bool(talk.is_due) <= bool(fetching), "there is somebody to ask for"
        if self.session is not None and self.session.number:
            for key in fetching - set(talk.moved):
                assert self.session.places.get(key) == self.ends[key], "the leader believes it elsewhere"

    def settle(self) -> None:
        """Answers and syncs come, and nothing else happens: then one fetch waits at the leader, which knows all."""
        for key in KEYS:
            self.talk.follow(key, Follower(5, 1.0))
        for _ in range(8):
            while self.syncs:
                self.sync()
            self.fetch()
            self.answer()
        self.fetch()
        assert len(self.in_flight) == 1 and not self.talk.is_due
        assert self.session is not None and self.session.places == self.ends
        assert self.in_flight[0][1].waits


@pytest.mark.parametrize("seed", range(60))
def test_the_leader_knows_the_fetched_partitions_and_positions_and_nothing_unsynced(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    history.settle()


def test_a_session_goes_round() -> None:
    history = History(1)
    history.has_room = True
    history.follow()
    history.fetch()
    history.answer()
    assert history.session is not None
    history.session.epoch = history.talk._session_epoch = MAX_EPOCH - 3
    for _ in range(10):
        history.fetch()
        history.answer()
    assert history.session.epoch == 7
