"""Room for what is large: by bytes, in the order of arrival, and nobody is left out."""

from __future__ import annotations

from highwater.net.room import Room, RoomPlace


class Guests:
    def __init__(self, limit: int) -> None:
        self.room = Room(limit)
        self.begun: list[str] = []
        self.gone: list[RoomPlace] = []

    def come(self, name: str, size: int) -> RoomPlace:
        place = RoomPlace(self.room, size, lambda: self.begun.append(name), self.gone.append)
        place.enter()
        return place


def test_a_request_that_fits_begins_at_once_and_others_in_their_order() -> None:
    guests = Guests(10)
    first, second = guests.come("a", 6), guests.come("b", 4)
    third = guests.come("c", 5)
    guests.come("d", 1)
    assert (guests.begun, len(guests.room), guests.room.taken) == (["a", "b"], 2, 10)
    second.leave()
    assert guests.begun == ["a", "b"], "nobody overtakes who came before him"
    first.leave()
    assert (guests.begun, len(guests.room), guests.room.taken) == (["a", "b", "c", "d"], 0, 6)
    assert [place.is_had for place in (first, second, third)] == [True] * 3


def test_a_request_larger_than_the_room_runs_alone() -> None:
    guests = Guests(10)
    small = guests.come("small", 1)
    large = guests.come("large", 99)
    assert guests.begun == ["small"]
    small.leave()
    guests.come("later", 1)
    assert (guests.begun, guests.room.taken) == (["small", "large"], 99)
    large.leave()
    assert (guests.begun, guests.room.taken) == (["small", "large", "later"], 1)


def test_a_place_is_left_once_whether_it_was_had_or_not() -> None:
    guests = Guests(1)
    first, second, third = (guests.come(name, 1) for name in "abc")
    for _ in range(2):
        second.leave()
    assert (guests.begun, len(guests.room)) == (["a"], 1)
    for _ in range(2):
        first.leave()
    assert (guests.begun, len(guests.room), guests.room.taken) == (["a", "c"], 0, 1)
    third.leave()
    assert (guests.room.taken, guests.gone) == (0, [second, first, third])


def test_a_place_that_is_left_while_it_begins_admits_the_next_one() -> None:
    room, begun = Room(1), list[int]()

    def come(number: int) -> None:
        def begin() -> None:
            begun.append(number)
            place.leave()

        place = RoomPlace(room, 1, begin, lambda left: None)
        place.enter()

    for number in range(3):
        come(number)
    assert (begun, room.taken, len(room)) == ([0, 1, 2], 0, 0)


def test_a_request_that_gives_up_waiting_lets_in_the_smaller_ones_behind_it() -> None:
    guests = Guests(10)
    guests.come("a", 6)
    large = guests.come("large", 9)
    guests.come("b", 4)
    assert guests.begun == ["a"]
    large.leave()
    assert (guests.begun, len(guests.room), guests.room.taken) == (["a", "b"], 0, 10)
