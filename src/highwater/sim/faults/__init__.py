"""The faults of a run: they are drawn from its seed as data, and carried out on a simulated cluster.

Start with `profiles` (which faults a run has) and `nemesis` (how they are carried out).
"""
