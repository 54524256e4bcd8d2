"""The rules of replication: when a record is committed, which replicas are in the ISR, where a follower cuts its log.

The package is pure: it does no I/O, reads no clock and holds no task. Callers pass in the time, and `partition/`
carries out what the rules decide. It imports `errors` and `model` only.

Start with `leader` (ISR and high watermark; `follower_progress` is what it knows of a follower), then `follower` (what
a fetch response means for a follower's log) and `conversation` (the fetches of one broker to one leader).
"""
