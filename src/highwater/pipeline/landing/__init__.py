"""Writes micro-batches into tables, each exactly once: files first, and then one commit that names the query and the
batch.

Start with `table` (what a table must do), `rule` (which batch lands) and `delta`.
"""
