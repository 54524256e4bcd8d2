"""Lists what is not healthy in a cluster. After the faults the list must become empty."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.metadata.cluster import MetadataImage
from highwater.sim.cluster import SimCluster, SimNode


def unhealthy(cluster: SimCluster, truth: MetadataImage | None) -> list[str]:
    """Nodes that do not serve or do not know what the others know, brokers that are fenced, replicas that are not in
    sync, logs that are offline, missing, or not where metadata has them."""
    serving = cluster.serving()
    found = [f"{name} does not serve" for name in cluster.names if cluster.members[name] not in serving]
    if truth is None:
        return [*found, "there is no metadata"]
    found += [f"broker {broker.id} is fenced" for broker in truth.brokers.by_id.values() if broker.fenced]
    for topic, index, part in truth.topics.each_partition():
        name = f"{topic.name}-{index}"
        if part.leader < 0 or len(part.isr) != len(part.replicas):
            found.append(f"{name}: leader {part.leader} epoch {part.leader_epoch}, ISR {part.isr}, ELR {part.elr}")
        found += [f"{name}: lost on {each}" for each in part.replicas if part.directory(each) == DIRECTORY_LOST]
    for member in serving:
        found += _of_node(member, truth)
    return found


def _of_node(member: SimNode, truth: MetadataImage) -> Iterator[str]:
    node = member.node
    assert node is not None
    if node.raft.committed.offset != truth.offset:
        yield f"{member.name} knows metadata up to {node.raft.committed.offset}, not {truth.offset}"
    broker = node.broker
    if broker is None:
        return
    for tp, failed in broker.store.unloaded.items():
        yield f"{tp} on {member.name} is not loaded: {failed}"
    for tp, log in broker.store.logs.items():
        if log.trouble is not None:
            yield f"{tp} on {member.name} is in trouble: {log.trouble}"
        if (topic := truth.topics.by_name.get(tp.topic)) is None or topic.id != log.topic_id:
            yield f"{tp} on {member.name} is of a topic that is gone"
    for topic, index, part in truth.topics.each_partition():
        if member.id in part.replicas and broker.hosted.find(topic.id, index) is None:
            yield f"{topic.name}-{index} is not on {member.name}"
