"""The states that a registered broker goes through, and what a heartbeat makes of them."""

from __future__ import annotations

from enum import Enum, auto


class BrokerState(Enum):
    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    """Its leaderships are being moved; it stays up until the others know."""
    SHUTDOWN = auto()
    """It may stop now; it is fenced."""


def next_state(
    current: BrokerState, *, want_fence: bool, want_shutdown: bool, caught_up: bool, leads: bool, others_know: bool
) -> BrokerState:
    """`caught_up`: it has applied its own registration. `others_know`: all active brokers have applied what the
    controlled shutdown wrote."""
    if current is BrokerState.FENCED:
        if want_shutdown:
            return BrokerState.SHUTDOWN
        return BrokerState.UNFENCED if caught_up and not want_fence else BrokerState.FENCED
    if current is BrokerState.UNFENCED:
        if want_shutdown:
            return BrokerState.CONTROLLED_SHUTDOWN if leads and not want_fence else BrokerState.SHUTDOWN
        return BrokerState.FENCED if want_fence else BrokerState.UNFENCED
    return BrokerState.SHUTDOWN if others_know and not leads else BrokerState.CONTROLLED_SHUTDOWN
