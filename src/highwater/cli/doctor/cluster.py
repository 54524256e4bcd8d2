"""A cluster as a client sees it from here: all examinations that need its answers, each after those that it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from highwater.cli.doctor.addresses import SeenBroker, Sight, is_of_this_machine, look
from highwater.cli.doctor.clocks import NodeClock, clock_of, clock_of_leader, examine_clocks
from highwater.cli.doctor.disk_space import examine_brokers_disks
from highwater.cli.doctor.finding import LIMITS, Finding, brokers_named
from highwater.cli.doctor.limits import examine_process
from highwater.cli.doctor.metadata_quorum import ask_each, examine_cut_off, examine_quorum
from highwater.cli.doctor.releases import examine_versions
from highwater.cli.doctor.replicas import examine_partitions
from highwater.cli.doctor.status_pages import StatusPage, ask_pages, page_of
from highwater.client.admin import Admin
from highwater.client.client import Client
from highwater.cluster.holder import holder_of_port
from highwater.model import NodeId


def examine_cluster(client: Client, examined: Collection[NodeId], seconds: float) -> Iterator[Finding]:
    """`examined` are nodes of this machine whose disks and limits were looked at by themselves."""
    sight = look(client, seconds)
    try:
        yield from sight.findings
        if sight.brokers:
            yield from _of_brokers(client, sight, examined, seconds)
    finally:
        for each in sight.brokers:
            each.connection.close()


def _of_brokers(client: Client, sight: Sight, examined: Collection[NodeId], seconds: float) -> Iterator[Finding]:
    """What those brokers tell that answer."""
    answers = ask_each(client, sight.brokers, seconds)
    cut_off = [each.broker.id for each in answers if each.is_cut_off]
    known = next((each for each in answers if not each.is_cut_off), answers[0])
    yield from examine_cut_off(cut_off, len(answers))
    of_leader = None
    if isinstance(known.quorum, Finding):
        yield known.quorum
    else:
        of_leader = clock_of_leader(known.quorum, known.asked_ms, known.answered_ms)
        yield from examine_quorum(known.quorum)
    client.bootstrap = [each.broker.endpoint for each in answers if not each.is_cut_off or len(cut_off) == len(answers)]
    yield from examine_partitions(Admin(client), sight.away)
    yield from examine_brokers_disks(client, [each.id for each in sight.brokers], frozenset(examined))
    yield from _limits(sight.brokers, examined)
    pages = ask_pages({each.id: at for each in sight.brokers if (at := page_of(each)) is not None}, seconds)
    clocks = [clock for page in pages if (clock := clock_of(page)) is not None]
    yield from _clocks(sight.brokers, pages, clocks, of_leader)
    yield from examine_versions(sight.brokers, clocks)


def _clocks(
    brokers: Sequence[SeenBroker],
    pages: Sequence[StatusPage],
    by_page: Sequence[NodeClock],
    of_leader: NodeClock | None,
) -> Iterator[Finding]:
    known = {clock.node for clock in by_page}
    clocks = [*by_page, *([of_leader] if of_leader is not None and of_leader.node not in known else [])]
    silent = [page for page in pages if page.node not in {clock.node for clock in clocks}]
    with_page = {page.node for page in pages}
    return examine_clocks(clocks, silent, [each.id for each in brokers if each.id not in with_page])


def _limits(brokers: Sequence[SeenBroker], examined: Collection[NodeId]) -> Iterator[Finding]:
    rest = []
    for broker in brokers:
        if broker.id in examined:
            continue
        pid = holder_of_port(broker.endpoint.port) if is_of_this_machine(broker.endpoint.host) else None
        if pid is None:
            rest.append(broker.id)
        else:
            yield from examine_process(f"broker {broker.id}", pid)
    if rest:
        yield LIMITS.unknown(
            f"the limits of {brokers_named(rest)}: only their own machines show them",
            "Run `highwater doctor --config server.properties` there.",
        )
