"""One module for each experiment: its words in both languages, and its script.

The modules use `highwater.lab.bench` and `highwater.lab.frame`. Start with `write_and_acknowledgement`.
"""
