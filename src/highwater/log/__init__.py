"""Partitions on disk, in Kafka's own file formats: segments, indexes, epochs, producers, recovery, retention,
compaction.

The package reaches files only through the injected disk (`highwater.world`). Work that may block runs in jobs, off the
event loop. It knows nothing of leaders and followers: `highwater.partition` adds those.

Start with `log` (one log), then `segment` (one segment and its indexes), `loader` (recovery), `store` (all logs of a
directory), `truncation` and `compaction`.
"""
