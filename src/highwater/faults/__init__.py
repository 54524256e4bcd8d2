"""Faults on purpose: links that hold or delay bytes, and requests answered with an error.

Nothing of this is in the way of an ordinary node: a test's cluster installs it, and steers it from outside.
"""

from highwater.faults.failures import CLOSE_CONNECTION, Failures, Rule
from highwater.faults.net import CLEAR, Condition, FaultyNet

__all__ = ["CLEAR", "CLOSE_CONNECTION", "Condition", "Failures", "FaultyNet", "Rule"]
