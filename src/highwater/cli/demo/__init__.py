"""`make run`: brokers, orders, Spark and an outage, with a screen to watch and a verdict at the end."""
