"""Compaction: of each key the last record is kept. Batches are read and written in jobs, off the event loop.

Start with `cleaner`, which picks a log and runs the steps: `plan` finds the dirty part, `rewrite` writes new segments
under another name, `thinning` and `transactions` decide what stays, and `swap` replaces the old segments. `interrupted`
finishes or undoes a swap after a crash. `account` holds the figures.
"""
