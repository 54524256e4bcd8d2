"""The metadata quorum at work on this node: the pure machine driven over log, disk and clock, and the controller."""
