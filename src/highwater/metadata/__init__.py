"""The metadata of the cluster as immutable images: topics, partitions, brokers, settings, features.

The package is pure. It applies records to an image and writes an image as records, and decides nothing: the controller
does (`highwater.controller`). It may use the wire messages and `model`.

Start with `cluster` (the image), `replay` (how records change it) and `changes` (the differences between two images).
"""
