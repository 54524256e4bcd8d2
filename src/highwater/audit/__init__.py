"""The verdict on a run: from what was sent, acknowledged and read to what was lost, doubled or out of order.

The package is pure and uses only `model`. The demo, the test fixtures and the simulation give it their histories.

Start with `history` (what clients saw), then `judging` and `verdict`.
"""

from highwater.audit.history import History, Outcome, Read, Sent
from highwater.audit.judging import judge
from highwater.audit.rows import RowsInParts, judge_rows
from highwater.audit.table import verdict_table, verdict_text
from highwater.audit.verdict import CLASSES, Verdict

__all__ = [
    "CLASSES",
    "History",
    "Outcome",
    "Read",
    "RowsInParts",
    "Sent",
    "Verdict",
    "judge",
    "judge_rows",
    "verdict_table",
    "verdict_text",
]
