"""Runs pure state machines on partitions of internal topics: groups on `__consumer_offsets`.

A machine is loaded from the partition that the broker begins to lead, writes to it and hears what became of each
write, and resigns when another broker leads.
"""
