"""How brokers are fenced and unfenced, and how they shut down: the records for each, and the response to a
heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from highwater.config import NodeConfig
from highwater.controller.death import Liveness
from highwater.controller.decision import Decision
from highwater.controller.elections import (
    in_directory,
    leaderless,
    leads_any,
    reelect,
    with_elr_member,
    with_isr_member,
)
from highwater.controller.states import BrokerState, next_state
from highwater.errors import Code, KafkaError
from highwater.metadata.brokers import FENCE, UNFENCE, BrokerRegistration
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.replay import apply
from highwater.model import NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from highwater.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord


def current_registration(head: MetadataImage, broker: int, epoch: int) -> BrokerRegistration:
    """Raises KafkaError(STALE_BROKER_EPOCH) unless the broker is registered with exactly this epoch."""
    registration = head.brokers.get(broker)
    if registration is None:
        raise KafkaError(Code.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker}")
    if registration.epoch != epoch:
        raise KafkaError(
            Code.STALE_BROKER_EPOCH, f"Expected broker epoch {registration.epoch}, but got broker epoch {epoch}"
        )
    return registration


def fence_broker(
    head: MetadataImage,
    config: NodeConfig,
    broker: NodeId,
    epoch: int,
    limit: int | None = None,
    silent: Sequence[NodeId] = (),
) -> list[Message]:
    """Removes the broker from every ISR and elects other leaders. It elects none of the `silent` brokers, which are
    fenced next. Returns nothing if this epoch is gone or fenced already.

    With a `limit`, it changes at most that many partitions. Call it again on the next head until the broker is fenced
    there. The fencing comes last, so a controller that takes over in between finds the work undone and begins again.
    """
    registration = head.brokers.get(broker)
    if registration is None or registration.epoch != epoch or registration.fenced:
        return []
    changes = reelect(head, config, with_isr_member(head, broker), leaving=broker, silent=silent)
    records = list(changes if limit is None else islice(changes, limit))
    if limit is None or len(records) < limit:
        records.append(BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch, fenced=FENCE))
    return records


def unfence_broker(head: MetadataImage, config: NodeConfig, broker: NodeId, epoch: int) -> list[Message]:
    """Unfences the broker, and elects it for partitions without a leader where it may lead."""
    return [
        BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch, fenced=UNFENCE),
        *reelect(head, config, leaderless(head), returning=broker),
    ]


def begin_controlled_shutdown(
    head: MetadataImage, config: NodeConfig, registration: BrokerRegistration
) -> list[Message]:
    broker = registration.id
    change: list[Message] = []
    if not registration.in_controlled_shutdown:
        change.append(
            BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=registration.epoch, in_controlled_shutdown=1)
        )
    return [*change, *reelect(head, config, with_isr_member(head, broker), leaving=broker)]


def forget_incarnation(head: MetadataImage, config: NodeConfig, broker: NodeId, *, clean: bool) -> list[Message]:
    """Before a new incarnation registers, the old one leaves every ISR. After an unclean stop it leaves the ELR, too,
    because it may have lost records that it acknowledged."""
    if head.features.elr_enabled and not clean:
        return [
            *reelect(head, config, with_isr_member(head, broker), unclean_shutdown=broker),
            *reelect(head, config, with_elr_member(head, broker), unclean_shutdown=broker),
        ]
    return list(reelect(head, config, with_isr_member(head, broker), leaving=broker))


def _directories_offline(
    head: MetadataImage, config: NodeConfig, registration: BrokerRegistration, offline: Sequence[Uuid]
) -> list[Message]:
    lost = [directory for directory in registration.directories if directory in offline]
    if not lost:
        return []
    records: list[Message] = []
    for directory in lost:
        records += reelect(head, config, in_directory(head, registration.id, directory), leaving=registration.id)
    remaining = [directory for directory in registration.directories if directory not in lost]
    change = BrokerRegistrationChangeRecord(
        broker_id=registration.id, broker_epoch=registration.epoch, log_dirs=remaining
    )
    return [*records, change]


def _directories_cordoned(registration: BrokerRegistration, cordoned: Sequence[Uuid] | None) -> list[Message]:
    if cordoned is None or (registration.cordoned is not None and set(registration.cordoned) == set(cordoned)):
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=registration.id, broker_epoch=registration.epoch, cordoned_log_dirs=list(cordoned)
    )
    return [change]


@dataclass(frozen=True, slots=True)
class HeartbeatDecision(Decision[BrokerHeartbeatResponse]):
    state: BrokerState | None = None
    """The argument for `Liveness.entered`; None if the heartbeat was refused."""


def heartbeat(
    head: MetadataImage, request: BrokerHeartbeatRequest, config: NodeConfig, liveness: Liveness
) -> HeartbeatDecision:
    try:
        registration = current_registration(head, request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return HeartbeatDecision(BrokerHeartbeatResponse(error_code=error.code), refusal=error)
    broker, epoch = registration.id, registration.epoch
    caught_up = request.current_metadata_offset >= head.brokers.registered_at[broker]
    current, others_know = _current_state(head, registration, liveness)
    state = next_state(
        current,
        want_fence=request.want_fence,
        want_shutdown=request.want_shut_down,
        caught_up=caught_up,
        leads=(request.want_shut_down or current is BrokerState.CONTROLLED_SHUTDOWN) and leads_any(head, broker),
        others_know=others_know,
    )
    records: list[Message] = []
    why = ""
    if state is not current:
        if state is BrokerState.UNFENCED:
            records, why = unfence_broker(head, config, broker, epoch), "it has caught up with the metadata"
        elif state is BrokerState.CONTROLLED_SHUTDOWN:
            records, why = begin_controlled_shutdown(head, config, registration), "it asked for it"
        else:
            records = fence_broker(head, config, broker, epoch)
            why = "it shuts down" if state is BrokerState.SHUTDOWN else "it asked for it"
    if request.offline_log_dirs:
        # Decided on the image after the change of state. Otherwise both could change the same partitions.
        after, _ = apply(head, records, head.offset + len(records), head.epoch)
        records += _directories_offline(after, config, registration, request.offline_log_dirs)
        why = why or f"directories of broker {broker} are offline"
    records += _directories_cordoned(registration, request.cordoned_log_dirs)
    response = BrokerHeartbeatResponse(
        is_caught_up=caught_up,
        is_fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN),
        should_shut_down=state is BrokerState.SHUTDOWN,
    )
    return HeartbeatDecision(response, records, why=why, state=state)


def _current_state(
    head: MetadataImage, registration: BrokerRegistration, liveness: Liveness
) -> tuple[BrokerState, bool]:
    """The broker's state, and whether all active brokers know of its controlled shutdown, if it is in one."""
    if registration.fenced:
        return BrokerState.FENCED, False
    begun_at = liveness.shutdown_offset(registration.id, registration.epoch)
    if begun_at is None:
        return BrokerState.UNFENCED, False
    lowest = liveness.lowest_active_offset(head.brokers)
    return BrokerState.CONTROLLED_SHUTDOWN, lowest is None or begun_at <= lowest
