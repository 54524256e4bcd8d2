"""Experiments on replication: they run on a real cluster, are narrated in two languages, and are drawn as lanes.

The package may use `highwater.cluster` and what is below it. Start with `catalogue` (the experiments), `frame` (what is
shown, as values), `bench` (what an experiment does to the cluster) and `drawing` (a frame as text).
"""
