"""The replicas that this broker hosts: each joins a log with the rules of replication and with the requests that wait.

The package may use `log/`, `replication/`, `net/` (to fetch from leaders) and the injected world. It knows nothing of
the broker's APIs or of metadata images: the broker passes in what it needs.

Start with `partition` (one replica: roles, appends, waiting requests), then `fetcher` (how a follower copies from
its leader) and `fetching` with `fetch_session` (how a leader answers a fetch).
"""
