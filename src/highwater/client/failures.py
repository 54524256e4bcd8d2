"""Failures between a client and a server, besides the error codes in responses (`highwater.errors`)."""

from __future__ import annotations


class ClientFailure(Exception):
    """There was no usable response. Whether the request took effect is unknown, unless a subclass says so."""


class Disconnected(ClientFailure):
    """The connection could not be made, or was lost."""


class Unreachable(Disconnected):
    """None of the bootstrap servers accepts connections: nothing was sent."""


class RequestTimeout(ClientFailure):
    """No response came in time; the connection was closed."""


class AuthenticationFailed(ClientFailure):
    """Client and server do not trust each other: a wrong password, an unknown certificate, or another
    security.protocol. No request was sent. The error is final: another attempt would fail in the same way, and could
    lock an account."""


class BadAnswer(ClientFailure):
    """The server sent something that the protocol does not allow; the connection was closed."""


class UnsupportedApi(ClientFailure):
    """Client and server have no version of this API in common: nothing was sent."""
