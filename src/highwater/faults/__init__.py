"""Faults on purpose: links that hold or delay bytes, and requests that get an error.

An ordinary node contains none of this. A test's cluster installs it, and controls it from outside. The package may use
`net`, `wire` and `world`.

Start with `net` (links) and `failures` (errors).
"""

from highwater.faults.failures import CLOSE_CONNECTION, Failures, Rule
from highwater.faults.net import CLEAR, Condition, FaultyNet

__all__ = ["CLEAR", "CLOSE_CONNECTION", "Condition", "Failures", "FaultyNet", "Rule"]
