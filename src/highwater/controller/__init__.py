"""The decisions of the active controller: from a request and the newest metadata image to records and a response.

The package is pure: it has no I/O, no clock and no randomness of its own, and a decision changes nothing.
`highwater.active_controller` appends the records. The soft state about brokers (`death`) changes only after the records
are in the log. The package may use `config`, `metadata` and the wire messages.

Start with `decision`, then `brokers`, `topics` and `elections`.
"""
