"""Micro-batches into tables, each exactly once: files first, then one commit that names the query and the batch."""
