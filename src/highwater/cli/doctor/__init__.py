"""`highwater doctor`: what is wrong with a cluster or a node, in plain words, and what to do.

Start with `finding` (what an examination yields), then `command` (which examinations there are). `addresses` to
`clocks` look at a cluster from here, as a client sees it; `local_nodes` to `limits` look at nodes of this machine.
"""
