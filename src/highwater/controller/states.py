"""The states of a registered broker, and how a heartbeat changes them."""

from __future__ import annotations

from enum import Enum, auto


class BrokerState(Enum):
    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    """Its leaderships are being moved. It stays up until the other brokers know."""
    SHUTDOWN = auto()
    """The broker may stop now. It is fenced."""


def next_state(
    current: BrokerState, *, want_fence: bool, want_shutdown: bool, caught_up: bool, leads: bool, others_know: bool
) -> BrokerState:
    """`caught_up`: the broker has applied its own registration. `others_know`: all active brokers have applied the
    records of its controlled shutdown."""
    if current is BrokerState.FENCED:
        if want_shutdown:
            return BrokerState.SHUTDOWN
        return BrokerState.UNFENCED if caught_up and not want_fence else BrokerState.FENCED
    if current is BrokerState.UNFENCED:
        if want_shutdown:
            return BrokerState.CONTROLLED_SHUTDOWN if leads and not want_fence else BrokerState.SHUTDOWN
        return BrokerState.FENCED if want_fence else BrokerState.UNFENCED
    return BrokerState.SHUTDOWN if others_know and not leads else BrokerState.CONTROLLED_SHUTDOWN
