"""One replica of the metadata quorum at work: the pure machine of `highwater.quorum`, driven over log, disk and clock.

It keeps the metadata log and its snapshots, and tells what is committed and who leads. What is decided is no concern
of it: see `highwater.active_controller`. Begin with `raft_node`.
"""
