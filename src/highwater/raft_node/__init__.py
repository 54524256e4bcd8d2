"""Runs one replica of the metadata quorum: drives the pure state machine of `highwater.quorum` with log, disk and
clock.

The package keeps the metadata log and its snapshots, and reports what is committed and which node leads. It does not
decide what is written: `highwater.active_controller` does. It must not use `highwater.broker` or `highwater.partition`.

Start with `raft_node`, then `inputs` (one input of the machine at a time), `metadata_log` (the log), `metadata_loader`
(what a start reads of it), `replay` (from batches to the metadata image) and `peers` (requests to other replicas). Each
file `k<key>_...` handles one API.
"""
