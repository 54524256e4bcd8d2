"""The message about voters that run on another directory than the one with which the quorum knows them."""

from __future__ import annotations

from collections.abc import Sequence


def lost_voters_line(lost: Sequence[int], voters: Sequence[int]) -> str:
    """The voters that lost their vote, the reason, the consequence, and what to do."""
    left = [voter for voter in voters if voter not in lost]
    needed = len(voters) // 2 + 1
    one = len(lost) == 1
    more = len(left) - needed
    may_fail = "none of them may fail" if more <= 0 else f"{more} more may fail"
    return (
        f"{'node' if one else 'nodes'} {_ids(lost)} {'votes' if one else 'vote'} no more: "
        f"{'its directory was' if one else 'their directories were'} lost and formatted anew, and the quorum counts a "
        f"voter on its first directory alone. Of the voters {_ids(voters)} {_ids(left)} are left and {needed} are "
        f"needed, so {may_fail}. Stop the cluster and put the lost directory back, or begin a new cluster in another "
        "directory"
    )


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
