"""TLS by Kafka's `ssl.…` settings: which servers a client trusts, which certificate it shows, and what an error
means."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from highwater.client.failures import AuthenticationFailed, ClientFailure, Disconnected
from highwater.model import Endpoint

TRUSTSTORE = "ssl.truststore."
KEYSTORE = "ssl.keystore."
KEY_PASSWORD = "ssl.key.password"
IDENTIFICATION = "ssl.endpoint.identification.algorithm"
PROTOCOL = "ssl.protocol"
ENABLED_PROTOCOLS = "ssl.enabled.protocols"
SETTINGS: Final = (
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    KEY_PASSWORD,
    IDENTIFICATION,
    PROTOCOL,
    ENABLED_PROTOCOLS,
)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_MESSAGE")
_OTHER_HOST = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_EXPIRED = 10
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)


def check_tls(settings: Mapping[str, str]) -> None:
    """Checks what can be checked before any file is read. Raises ValueError."""
    if settings.get(IDENTIFICATION, "https").lower() not in ("https", ""):
        raise ValueError(f"{IDENTIFICATION} can be https, or empty so that host names are not checked")
    _versions(settings)
    for store in (TRUSTSTORE, KEYSTORE):
        kind = settings.get(f"{store}type", "PEM").upper()
        if kind != "PEM":
            raise _unreadable(store, settings.get(f"{store}location", "FILE"), kind)
        if f"{store}password" in settings:
            raise ValueError(f"{store}password is not for PEM files: leave it out ({KEY_PASSWORD} is that of a key)")
    if "ssl.truststore.location" in settings and "ssl.truststore.certificates" in settings:
        raise ValueError("ssl.truststore.location and ssl.truststore.certificates exclude each other")
    inline = [name in settings for name in ("ssl.keystore.key", "ssl.keystore.certificate.chain")]
    if any(inline) and (not all(inline) or "ssl.keystore.location" in settings):
        raise ValueError(
            "ssl.keystore.location (a PEM file with a key and its certificates), or ssl.keystore.key together with "
            "ssl.keystore.certificate.chain, is the certificate of the client: give one of the two"
        )


def tls_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """All values are as they are to be used. Raises ValueError, which quotes no content."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = _versions(settings)
    # As in Java: what is in the truststore is trusted, whoever signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = settings.get(IDENTIFICATION, "https").lower() == "https"
    _trust(context, settings)
    if (location := settings.get("ssl.keystore.location")) is not None:
        _pem_text(KEYSTORE, location)
        _show(context, location, location, settings.get(KEY_PASSWORD))
    elif (key := settings.get("ssl.keystore.key")) is not None:
        # OpenSSL takes a key from a file alone. This one is readable by its owner only, and gone at once.
        with tempfile.NamedTemporaryFile("w", prefix="highwater-", suffix=".pem") as file:
            file.write(f"{_lines(key)}\n{_lines(settings['ssl.keystore.certificate.chain'])}\n")
            file.flush()
            _show(context, file.name, "ssl.keystore.key", settings.get(KEY_PASSWORD))
    return context


def _trust(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    if (location := settings.get("ssl.truststore.location")) is not None:
        name, text = location, _pem_text(TRUSTSTORE, location)
    elif (certificates := settings.get("ssl.truststore.certificates")) is not None:
        name, text = "ssl.truststore.certificates", _lines(certificates)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise ValueError(f"{name} has no certificate that can be read: it must be in PEM format") from None


def _show(context: ssl.SSLContext, file: str, name: str, password: str | None) -> None:
    def asked() -> str:
        if password is None:
            raise ValueError(f"the private key in {name} is encrypted: {KEY_PASSWORD} is missing")
        return password

    try:
        context.load_cert_chain(file, password=asked)
    except ssl.SSLError as error:
        hint = f"is {KEY_PASSWORD} right?" if password is not None else "it must have both, in PEM format"
        reason = (error.reason or "not PEM").replace("_", " ").lower()
        raise ValueError(f"{name}: the private key and its certificate cannot be read ({reason}); {hint}") from None


def _versions(settings: Mapping[str, str]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    named = [each.strip() for each in settings.get(ENABLED_PROTOCOLS, ",".join(_VERSIONS)).split(",")]
    for each in named:
        if each not in _VERSIONS:
            raise ValueError(f"{ENABLED_PROTOCOLS} names something else than {' and '.join(_VERSIONS)}")
    limit = settings.get(PROTOCOL, "TLSv1.3")
    if limit not in (*_VERSIONS, "TLS"):
        raise ValueError(f"{PROTOCOL} can be TLS, {' or '.join(_VERSIONS)}")
    enabled = [_VERSIONS[each] for each in named if _VERSIONS[each] <= _VERSIONS.get(limit, ssl.TLSVersion.TLSv1_3)]
    if not enabled:
        raise ValueError(f"{PROTOCOL} is {limit}, and {ENABLED_PROTOCOLS} has no version up to it")
    return min(enabled), max(enabled)


def _pem_text(store: str, location: str) -> str:
    try:
        data = Path(location).read_bytes()
    except OSError as error:
        raise ValueError(f"{store}location: {location}: {error.strerror}") from None
    if b"-----BEGIN " in data:
        return data.decode("ascii", "ignore")
    kind = _STORES.get(data[:4]) or ("PKCS12" if data[:1] == b"\x30" else None)
    if kind is None:
        raise ValueError(f"{store}location: {location} is not a PEM file: it has no -----BEGIN")
    raise _unreadable(store, location, kind)


def _unreadable(store: str, location: str, kind: str) -> ValueError:
    """There is no reader of Java's stores in Python's standard library."""
    steps = []
    if kind != "PKCS12":
        steps.append(f"keytool -importkeystore -srckeystore {location} -destkeystore store.p12 -deststoretype PKCS12")
        location = "store.p12"
    steps.append(f"openssl pkcs12 -in {location} {'-nokeys ' if store == TRUSTSTORE else ''}-out store.pem")
    return ValueError(
        f"{store}location is a {kind} store, which cannot be read here: convert it with `{' && '.join(steps)}`, and "
        f"set {store}location to store.pem and {store}type to PEM"
    )


def _lines(pem: str) -> str:
    """In a setting of one line, spaces stand where a PEM file has its line ends, as Kafka allows."""
    parts = pem.strip().replace("\\n", "\n").split("-----")
    return "-----".join(part if at % 2 else "\n".join(["", *part.split(), ""]) for at, part in enumerate(parts)).strip()


def not_tls(endpoint: Endpoint) -> str:
    return (
        f"{endpoint} does not speak TLS: is it a listener without encryption? Set security.protocol to PLAINTEXT or "
        "SASL_PLAINTEXT, or connect to the port of the encrypted listener"
    )


def explained(error: OSError, endpoint: Endpoint, *, in_handshake: bool) -> ClientFailure:
    """The meaning of a failed TLS operation, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(_distrust(error, endpoint))
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if in_handshake and reason in _NOT_TLS:
        return AuthenticationFailed(not_tls(endpoint))
    if "_ALERT_" in reason:
        said = reason.partition("_ALERT_")[2].replace("_", " ").lower()
        what = "check the client's certificate in ssl.keystore.*" if "CERT" in reason else "check ssl.enabled.protocols"
        return AuthenticationFailed(f"{endpoint} refuses this client in the TLS handshake ({said}): {what}")
    if in_handshake:
        return Disconnected(
            f"{endpoint} ended the connection during the TLS handshake: is it a listener without encryption? "
            "Then set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        )
    return Disconnected(f"{endpoint} disconnected: {error.strerror or error}")


def _distrust(error: ssl.SSLCertVerificationError, endpoint: Endpoint) -> str:
    if error.verify_code in _OTHER_HOST:
        return (
            f"the certificate of {endpoint} is not for the host {endpoint.host}: connect by a name that is in it, or "
            f"set {IDENTIFICATION} to nothing if host names need no check"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            f"the certificate of {endpoint} is signed by an authority that this client does not know: give the "
            "authority's certificate with ssl.truststore.location"
        )
    if error.verify_code == _EXPIRED:
        return f"the certificate of {endpoint} has expired: the broker needs a new one"
    return f"the certificate of {endpoint} is not accepted: {error.verify_message}"
