"""Pure rules of replication: what a leader knows of its followers, and when a record counts as committed."""
