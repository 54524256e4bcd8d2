"""SASL as Kafka's clients use it: one small state machine for each mechanism, from bytes to bytes, without I/O.

Start with `exchange`, the interface of all machines; `plain`, `scram` and `oauthbearer` are the machines. `login`
chooses one by a client's settings, and `jaas` reads `sasl.jaas.config`. `tokens` keeps OAuth tokens. Only
`token_endpoint` opens a connection or a file: it fetches tokens.
"""
