"""Runs the active controller: the requests that it answers, and the decisions that timers start.

`highwater.controller` makes the decisions and is pure. This package gives it one decision at a time, appends the
records through `highwater.raft_node`, and sends the response when they are committed. It must not use
`highwater.broker`: it knows brokers only by their requests and by the metadata.

Start with `active_controller`, then `docket` (the order of decisions), `broker_watch` (which brokers are fenced) and
`clockwork` (timers). Each file `k<key>_...` handles one API.
"""
