"""The verdict on a run: from what was sent, acknowledged and read to what was lost, doubled or out of order. Pure."""

from highwater.audit.history import History, Outcome, Read, Sent
from highwater.audit.verdict import Verdict, judge

__all__ = ["History", "Outcome", "Read", "Sent", "Verdict", "judge"]
