"""The web console: a client of any Kafka cluster that shows it in a browser.

The package may use the client and what lies below it, and nothing of a node. Start with `application` (what a browser
may ask for), then `access` (who may ask), `poller` (one poller for all viewers) and `cluster_reader` (what it asks of
the cluster). The pages are plain files in `static`.
"""
