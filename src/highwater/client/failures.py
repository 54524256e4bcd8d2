"""Failures between a client and a server, besides the error codes in responses (`highwater.errors`)."""

from __future__ import annotations


class ClientFailure(Exception):
    """No usable answer was had. Whether the request took effect is unknown unless a subclass says so."""


class Disconnected(ClientFailure):
    """The connection could not be made, or was lost."""


class Unreachable(Disconnected):
    """None of the bootstrap servers accepts connections: nothing was sent."""


class RequestTimeout(ClientFailure):
    """No answer in time; the connection was given up."""


class AuthenticationFailed(ClientFailure):
    """The two sides do not trust each other: a wrong password, an unknown certificate, or another security.protocol.

    Nothing was sent but the attempt. It is final: another one would end in the same way, and may lock an account.
    """


class BadAnswer(ClientFailure):
    """The server sent what the protocol does not allow; the connection was given up."""


class UnsupportedApi(ClientFailure):
    """The server has no version of this API in common with us: nothing was sent."""
