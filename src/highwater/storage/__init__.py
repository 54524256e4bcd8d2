"""The directories of a node while no node runs on them: `storage format` formats them, and their records are read.

A running node opens its directory with `highwater.log.home`, and reads the metadata log with `highwater.raft_node`. No
part of a running node imports this package. It touches only the disk, through `highwater.world`.

Start with `format`.
"""
