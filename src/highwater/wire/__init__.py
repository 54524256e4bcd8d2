"""Bytes to values and back: messages, record batches, compression, framing. No I/O.

`reader` and `writer` know Kafka's primitive types, `codec` joins them to messages, and `messages` holds one generated
module for each of Kafka's message definitions. `produce` and `fetch` are hand-written codecs of the busiest messages;
they share `flat`. `records` reads, checks and rewrites record batches. `framing` divides a byte stream into requests.

The package may use `kernel`, `errors` and `model`. Start with `codec`.
"""
