"""Runs pure state machines on the partitions of an internal topic.

A machine is loaded from its partition when this broker becomes leader. It writes to the partition, gets the result of
each write, and resigns when another broker becomes leader. The package does not know which machine it runs: it may use
only the protocol `machine.Machine` and `highwater.effects`.

Start with `tenure`.
"""
