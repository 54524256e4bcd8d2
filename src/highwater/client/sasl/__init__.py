"""SASL as Kafka's clients speak it: one small state machine per mechanism, from bytes to bytes, without any socket.

`exchange` has what all machines have in common; `plain`, `scram` and `oauthbearer` are the machines. `jaas` reads
`sasl.jaas.config`, `tokens` and `token_endpoint` have OAuth tokens, and `login` chooses the machine from a client's
settings.
"""
