"""What the active controller decides, purely: a request and the head image in, records and an answer out.

No I/O, no clock and no randomness of its own, and no decision changes anything: `highwater.active_controller` writes
the records, and what is remembered of brokers beside the metadata (`death`) changes once they are in the log. Begin
with `decision`, then `brokers`, `topics` and `elections`.
"""
