"""Where log and replication meet: the replicas this node hosts, and those who wait for them."""
