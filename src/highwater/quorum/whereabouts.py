"""Where a voter is asked for its vote."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.model import Endpoint, NodeId

Places = Sequence[Endpoint | None]
"""The address of a voter in the voter set, and then the other places where it may be."""


class Whereabouts:
    """A voter that moves writes its new address into the voter set when it is elected. Until then the others know the
    old one, and without its vote perhaps none of them can be elected. So a voter that does not answer is looked for in
    one place after the other. Another voter that is asked there refuses: the request names the voter."""

    def __init__(self) -> None:
        self._asked: dict[NodeId, int] = {}
        """How often each voter was asked in vain. The place where it answered last is not counted."""

    def ask(self, voter: NodeId, places: Places) -> Endpoint | None:
        """The place where the voter is asked now. If it does not answer there, the next one follows."""
        asked = self._asked.get(voter, 0)
        self._asked[voter] = asked + 1
        return places[asked % len(places)]

    def answered(self, voter: NodeId) -> None:
        """The voter is where it was asked last. An answer to a vote of which nothing is known says nothing of that."""
        self._asked[voter] = max(0, self._asked.get(voter, 0) - 1)

    def is_sought(self, voter: NodeId, places: Places) -> bool:
        """Whether it was asked last in another place than that of the voter set, where a stranger may have answered."""
        return (self._asked.get(voter, 0) - 1) % len(places) > 0
