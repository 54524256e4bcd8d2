"""Registration of brokers and controllers: each request is checked against the state of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from highwater.config import NodeConfig
from highwater.controller.brokers import forget_incarnation
from highwater.controller.death import Liveness
from highwater.controller.decision import Decision
from highwater.errors import Code, KafkaError
from highwater.metadata.brokers import BrokerRegistration, is_reserved_directory
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.features import KRAFT_VERSION, METADATA_VERSION
from highwater.metadata.registration import VersionRange
from highwater.model import NodeId, uuid_text
from highwater.wire.codec import Message
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from highwater.wire.messages.controller_registration_request import ControllerRegistrationRequest
from highwater.wire.messages.controller_registration_response import ControllerRegistrationResponse
from highwater.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from highwater.wire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

SECURITY_PROTOCOLS: Final = range(4)
"""PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL."""

NEVER_REGISTERED: Final = -2
"""An epoch that never equals a PreviousBrokerEpoch: a broker sends -1 as its default."""


def register_broker(
    head: MetadataImage,
    request: BrokerRegistrationRequest,
    version: int,
    config: NodeConfig,
    liveness: Liveness,
    now: float,
    next_offset: int,
    kraft_version: int,
    outlives: Callable[[BrokerRegistration], bool] = lambda existing: False,
) -> Decision[BrokerRegistrationResponse]:
    """A new incarnation starts fenced. Its epoch is `next_offset`, the offset at which these records are appended.

    `outlives` is asked where the session of an incarnation with the same directory stands in its way: `Succession`.
    """
    existing = head.brokers.get(request.broker_id)
    try:
        _check_id(request.broker_id)
        _check_identity(head, request, existing, liveness, now, outlives)
        _check_directories(head, request)
        _check_features(request, {**head.features.levels, KRAFT_VERSION: kraft_version})
        _check_listeners(listener.security_protocol for listener in request.listeners)
    except KafkaError as error:
        return Decision(BrokerRegistrationResponse(error_code=error.code), refusal=error)
    records: list[Message] = []
    record = _registration_record(request)
    why = "its first registration" if existing is None else "it registered again"
    if existing is not None and existing.incarnation == request.incarnation_id:
        record.broker_epoch = existing.epoch
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    else:
        stored_epoch = NEVER_REGISTERED if existing is None else existing.epoch
        clean = version >= 3 and request.previous_broker_epoch == stored_epoch
        records += forget_incarnation(head, config, NodeId(request.broker_id), clean=clean)
        record.broker_epoch = next_offset
        if existing is not None:
            why = "it started again after a clean stop" if clean else "it started again, and did not stop cleanly"
    return Decision(BrokerRegistrationResponse(broker_epoch=record.broker_epoch), [*records, record], why=why)


def _check_id(node: int) -> None:
    """A negative id is no node: -1 means that a partition has no leader."""
    if node < 0:
        raise KafkaError(Code.INVALID_REGISTRATION, f"{node} is no node id")


def _check_identity(
    head: MetadataImage,
    request: BrokerRegistrationRequest,
    existing: BrokerRegistration | None,
    liveness: Liveness,
    now: float,
    outlives: Callable[[BrokerRegistration], bool],
) -> None:
    if request.cluster_id != head.cluster_id:
        raise KafkaError(Code.INCONSISTENT_CLUSTER_ID)
    if (
        existing is not None
        and existing.incarnation != request.incarnation_id
        and liveness.has_session(existing.id, existing.epoch, now)
    ):
        shares_directory = any(directory in existing.directories for directory in request.log_dirs)
        if not (shares_directory and outlives(existing)):
            raise KafkaError(Code.DUPLICATE_BROKER_REGISTRATION)
    if request.is_migrating_zk_broker:
        raise KafkaError(Code.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")


def _check_directories(head: MetadataImage, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise KafkaError(Code.INVALID_REGISTRATION, "No directories specified in request")
    if any(is_reserved_directory(directory) for directory in directories):
        raise KafkaError(Code.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise KafkaError(Code.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker in head.brokers.by_id.values():
        taken = [directory for directory in directories if directory in broker.directories]
        if taken and broker.id != request.broker_id:
            raise KafkaError(
                Code.INVALID_REGISTRATION,
                f"Broker {broker.id} is already registered with directory {uuid_text(taken[0])}",
            )


def _check_features(request: BrokerRegistrationRequest, finalized: Mapping[str, int]) -> None:
    """The broker must support every finalized level; a feature it does not name it supports at level 0 only."""
    supported = {f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in request.features}
    for name, versions in supported.items():
        if finalized.get(name, 0) not in versions:
            raise KafkaError(Code.UNSUPPORTED_VERSION)
    if METADATA_VERSION not in supported:
        raise KafkaError(Code.INVALID_REGISTRATION, f"Request features do not contain '{METADATA_VERSION}'")
    if any(level != 0 and name not in supported for name, level in finalized.items()):
        raise KafkaError(Code.UNSUPPORTED_VERSION)


def _check_listeners(protocols: Iterable[int]) -> None:
    unknown = [protocol for protocol in protocols if protocol not in SECURITY_PROTOCOLS]
    if unknown:
        raise KafkaError(Code.UNKNOWN_SERVER_ERROR, f"Unknown security protocol {unknown[0]}")


def _registration_record(request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        rack=request.rack,
        end_points=[
            BrokerEndpoint(name=x.name, host=x.host, port=x.port, security_protocol=x.security_protocol)
            for x in request.listeners
        ],
        features=[
            BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        log_dirs=list(request.log_dirs),
    )


def register_controller(request: ControllerRegistrationRequest) -> Decision[ControllerRegistrationResponse]:
    try:
        _check_id(request.controller_id)
        _check_listeners(listener.security_protocol for listener in request.listeners)
    except KafkaError as error:
        return Decision(
            ControllerRegistrationResponse(error_code=error.code, error_message=error.message), refusal=error
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            ControllerEndpoint(name=x.name, host=x.host, port=x.port, security_protocol=x.security_protocol)
            for x in request.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    return Decision(ControllerRegistrationResponse(error_message=None), [record])
