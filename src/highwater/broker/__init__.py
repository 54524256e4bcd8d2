"""The Kafka face: one handler file per API key, and what applies new metadata to this node.

The death of a broker is decided by the active controller alone (`highwater.controller.death`). Others only bring
evidence, or bridge the moment until it is decided:

- `highwater.net.probe` dials an address until it has refused twice: that proves that a process is gone. It is asked
  about brokers by the controller's `broker_watch`, and about the quorum's leader by `leader_watch`.
- `doubts`: this broker lost a connection with another. Clients that ask who leads wait for the little while that the
  controller needs; nothing is decided by it.
- `departed`: the controller has fenced a broker just now. Clients that had to do with it are told in two steps.
"""
