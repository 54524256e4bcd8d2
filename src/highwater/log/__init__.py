"""One partition on disk: segments, indexes, epochs, producers, recovery, retention. Kafka's own files."""
