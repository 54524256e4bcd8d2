"""How a client connects to a secured cluster: `security.protocol` and related settings, with Kafka's names."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.client import tls
from highwater.client.failures import RequestTimeout
from highwater.client.references import FORMS, is_reference, resolved
from highwater.client.sasl.jaas import LoginModule, parse_jaas
from highwater.client.sasl.login import (
    CLIENT_SECRET,
    MECHANISM,
    MECHANISMS,
    OAUTH_SETTINGS,
    OAUTHBEARER,
    Login,
    check_login,
    login_of,
)
from highwater.model import Endpoint

PROTOCOL: Final = "security.protocol"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
JAAS: Final = "sasl.jaas.config"
SETTINGS: Final = (PROTOCOL, MECHANISM, JAAS, *OAUTH_SETTINGS, *tls.SETTINGS)
"""All settings that have an effect."""
_PREFIXES = ("security.", "sasl.", "ssl.")
_SECRETS = (CLIENT_SECRET, "ssl.truststore.password", "ssl.keystore.password", "ssl.keystore.key", tls.KEY_PASSWORD)
_SECRET_OPTIONS = ("password", "clientSecret")


def is_of_security(name: str) -> bool:
    """Whether a setting of this name is for `Security`, which may refuse it."""
    return name.startswith(_PREFIXES)


@dataclass(frozen=True, slots=True)
class Access:
    """What a connection needs, with all secrets. It is made where connections are opened, and is never sent
    elsewhere."""

    context: ssl.SSLContext | None = field(default=None, repr=False)
    login: Login | None = None

    def secured(self, sock: socket.socket, endpoint: Endpoint) -> socket.socket:
        """The socket after the TLS handshake, within its timeout. Raises ClientFailure; the socket is closed then."""
        if self.context is None:
            return sock
        try:
            return self.context.wrap_socket(sock, server_hostname=endpoint.host)
        except TimeoutError as error:
            sock.close()
            raise RequestTimeout(f"{endpoint} did not finish the TLS handshake in time") from error
        except OSError as error:
            sock.close()
            raise tls.explained(error, endpoint, in_handshake=True) from error


@dataclass(frozen=True, slots=True)
class Security:
    """The settings as they were given. If its secrets are references, it contains no secret and may be sent to other
    processes."""

    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Security:
        """Made from all settings of a client; settings about other things are ignored. Raises ValueError."""
        settings = {name: value for name, value in given.items() if is_of_security(name)}
        for name in settings:
            if name not in SETTINGS:
                raise ValueError(f"{name} is not supported; of these settings there are {', '.join(SETTINGS)}")
        _check(settings)
        return cls(tuple(settings.items()))

    @classmethod
    def restored(cls, pairs: Iterable[Iterable[str]]) -> Security:
        """From `settings` that were written as JSON, which knows no tuples."""
        return cls(tuple((name, value) for name, value in pairs))

    @property
    def open_secret(self) -> str | None:
        """The name of a setting that contains the secret itself, and not a reference to it."""
        settings = dict(self.settings)
        for name in _SECRETS:
            if not is_reference(settings.get(name, "${env:NONE}")):
                return name
        jaas = settings.get(JAAS)
        if jaas is not None and not is_reference(jaas):
            options = parse_jaas(jaas).options
            if any(name in options and not is_reference(options[name]) for name in _SECRET_OPTIONS):
                return JAAS
        return None

    def access(self) -> Access:
        """Looks up the references and reads the certificates. Raises ValueError."""
        settings = dict(self.settings)
        protocol = _protocol(settings)
        if protocol == "PLAINTEXT":
            return Access()
        jaas = settings.pop(JAAS, "")
        settings = {name: _looked_up(name, value) for name, value in settings.items()}
        login = None
        if protocol.startswith("SASL_"):
            module = _module(jaas)
            check_login(module, settings)
            login = login_of(module, settings)
        return Access(tls.tls_context(settings) if protocol.endswith("SSL") else None, login)


PLAINTEXT: Final = Security()

WRITTEN_OUT = f"is written out: give it as {FORMS}, so that it is in no file, plan or log of the pipeline"
"""The error message for an `open_secret` where none is allowed."""


def _check(settings: Mapping[str, str]) -> None:
    protocol = _protocol(settings)
    if protocol not in PROTOCOLS:
        raise ValueError(f"{PROTOCOL} is {protocol}: it must be one of {', '.join(PROTOCOLS)}")
    is_sasl, is_tls = protocol.startswith("SASL_"), protocol.endswith("SSL")
    for name in settings:
        if name.startswith("sasl.") and not is_sasl:
            raise ValueError(f"{name} is given, but {PROTOCOL} is {protocol}: set it to SASL_SSL or SASL_PLAINTEXT")
        if name.startswith("ssl.") and not is_tls:
            raise ValueError(f"{name} is given, but {PROTOCOL} is {protocol}: set it to SSL or SASL_SSL")
    if is_tls:
        tls.check_tls(settings)
    if not is_sasl:
        return
    mechanism = settings.get(MECHANISM)
    if mechanism not in MECHANISMS:
        what = "missing" if mechanism is None else mechanism
        raise ValueError(f"{MECHANISM} is {what}: it must be one of {', '.join(MECHANISMS)}")
    if mechanism != OAUTHBEARER:
        for name in OAUTH_SETTINGS:
            if name in settings:
                raise ValueError(f"{name} is given, but {MECHANISM} is {mechanism}: it is for {OAUTHBEARER}")
    if JAAS not in settings:
        raise ValueError(f"{JAAS} is missing: the login module with its options")
    if not is_reference(settings[JAAS]):
        check_login(parse_jaas(settings[JAAS]), settings)


def _protocol(settings: Mapping[str, str]) -> str:
    return settings.get(PROTOCOL, "PLAINTEXT").strip().upper()


def _module(jaas: str) -> LoginModule:
    """References within the options are looked up after the parsing: a secret may have quotes in it."""
    if is_reference(jaas):
        return parse_jaas(_looked_up(JAAS, jaas))
    module = parse_jaas(jaas)
    return LoginModule(module.name, {name: _looked_up(JAAS, value) for name, value in module.options.items()})


def _looked_up(name: str, value: str) -> str:
    try:
        return resolved(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
