"""An exhaustive search: the real state machines and decisions of replication, in a small model of everything else.

Start with `scope` (what is searched), `steps` (what can happen), `properties` (what must hold) and `exploring`. The
model is in `state`, `node`, `replica_log` and `channel`.
"""
