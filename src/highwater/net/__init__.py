"""The network: Kafka's protocol over TCP, for servers and clients, and a small HTTP server for status and metrics.

The package may use the wire formats and the injected world. It knows no API but ApiVersions: the packages above declare
their APIs in a `Registry`.

Start with `registry` (how an API is declared), then `server` and `connection` (requests in, responses out), `turns`
(how connections share the event loop), `budget` (memory) and `client` (connections to other nodes).
"""
