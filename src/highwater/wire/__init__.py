"""Bytes to values and back: messages, record batches, compression, framing. No I/O."""
