"""The experiments, in the order of the course."""

from __future__ import annotations

from typing import Final

from highwater.lab.experiment import Experiment
from highwater.lab.experiments import (
    acks_and_outage,
    checkpoint_files,
    controller_failover,
    counting_messages,
    divergence,
    keys_and_offsets,
    leader_killed,
    preferred_leader,
    racks_and_followers,
    replication_factor,
    segments_and_compaction,
    slowest_replica,
    watermark_alone,
    watermark_too_low,
    write_and_acknowledgement,
)

EXPERIMENTS: Final[dict[str, Experiment]] = {
    each.name: each
    for each in (
        write_and_acknowledgement.EXPERIMENT,
        replication_factor.EXPERIMENT,
        slowest_replica.EXPERIMENT,
        counting_messages.EXPERIMENT,
        acks_and_outage.EXPERIMENT,
        leader_killed.EXPERIMENT,
        watermark_too_low.EXPERIMENT,
        divergence.EXPERIMENT,
        watermark_alone.EXPERIMENT,
        controller_failover.EXPERIMENT,
        preferred_leader.EXPERIMENT,
        racks_and_followers.EXPERIMENT,
        checkpoint_files.EXPERIMENT,
        keys_and_offsets.EXPERIMENT,
        segments_and_compaction.EXPERIMENT,
    )
}
