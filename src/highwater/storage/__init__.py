"""A node's directories while no node runs on them: formatted by `storage format`, and read for what they say.

A running node opens its directory by `highwater.log.home`, and reads the metadata log by `highwater.raft_node`; nothing
that a node is made of imports this package. It touches the disk alone, through `highwater.world`. Begin with `format`.
"""
