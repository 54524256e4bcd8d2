"""`make run`: brokers, orders, Spark and an outage, with a screen to watch and a verdict at the end.

Start with `command` (the options), then `run` (the parts and their order), `driver` (Spark) and `screen`.
"""
