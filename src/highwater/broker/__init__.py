"""The broker: one handler file for each API key, and the parts that apply new metadata to this node.

The package may use every part below it (`partition`, `coordinator`, `groups`, `log`, `net`), but not
`highwater.controller`: it talks to the controller by requests only.

Start with `broker` (the parts of a broker), `publisher` (how a new metadata image is applied) and a handler such as
`k00_produce`. `role` holds the start and the stop.

Only the active controller decides that a broker is dead (`highwater.controller.death`). The following modules only
collect evidence, or bridge the time until the decision:

- `highwater.net.probe` connects to an address until it is refused twice: that proves that the process is dead. The
  controller's `broker_watch` uses it for brokers, and `leader_watch` uses it for the leader of the quorum.
- `doubts`: this broker lost a connection to another broker. Clients that ask for metadata wait for the short time that
  the controller needs. It decides nothing.
- `departed`: the controller has just fenced a broker. Its clients get the news in two steps.
"""
