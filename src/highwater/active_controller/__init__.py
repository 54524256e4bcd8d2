"""The active controller at work: the requests that it answers, and what it decides by the clock.

`highwater.controller` decides, purely: a request and the head image in, records and an answer out. This package gives
it one decision at a time, writes the records through `highwater.raft_node`, and sends the answer once they are
committed. It knows nothing of brokers but what they send and what the metadata says of them. Begin with
`active_controller`.
"""
