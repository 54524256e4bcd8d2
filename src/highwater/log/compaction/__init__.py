"""Compaction: of each key the last record is kept.

What is dirty (`plan`), what of it stays (`thinning`, `transactions`), segments written anew aside (`rewrite`), put in
the place of the old ones (`swap`, `interrupted`), and when all this is done (`cleaner`).
"""
