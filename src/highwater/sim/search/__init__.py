"""An exhaustive search: the real machines and decisions of replication, in a small model of everything else."""
