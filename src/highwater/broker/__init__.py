"""The Kafka face: one handler file per API key, and what applies new metadata to this node."""
