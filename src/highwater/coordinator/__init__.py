"""Runs pure state machines on the partitions of an internal topic.

A machine is loaded from the partition that the broker begins to lead, writes to it and hears what became of each
write, and resigns when another broker leads. Which machine that is, nothing here knows: it keeps to `machine.Machine`
and speaks in `highwater.effects`. Begin with `tenure`.
"""
