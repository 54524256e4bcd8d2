"""Runs pure state machines on the partitions of an internal topic.

A machine is loaded from its partition when this broker becomes leader. It writes to the partition, gets the result of
each write, and resigns when another broker becomes leader. The package does not know which machine it runs: of the
machine it may use only the protocol `machine.Machine` and the vocabulary in `highwater.effects`. It may also use
`partition`, `log` and `net`, but it must not import a machine.

Start with `tenure`.
"""
