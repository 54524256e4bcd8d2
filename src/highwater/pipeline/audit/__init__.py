"""A topic against its table: what is missing, doubled or foreign, by partition and offset. Start with `comparison`."""
