"""SCRAM (RFC 5802, RFC 7677): a proof of the password in each direction; the password itself is never sent."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

from highwater.client.sasl.exchange import LoginRefused

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS: Final = 4096
"""Kafka's clients require at least as many: with fewer, an eavesdropper could guess passwords quickly."""
MOST_ITERATIONS: Final = 1_000_000
"""About half a second of work. A server could keep a client busy for hours with a larger number."""

_HEADER = "n,,"
"""No channel binding, and no other identity."""
_NONCE_BYTES = 24
_SERVER_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9/+=]+),i=([1-9][0-9]{0,9})(?:,.*)?")
_SERVER_FINAL = re.compile(r"(?:v=([A-Za-z0-9/+=]+)|e=([^,]+))(?:,.*)?")


class ScramExchange:
    def __init__(self, mechanism: str, username: str, password: str, *, nonce: str | None = None) -> None:
        """`nonce` is random unless a test gives one."""
        if not username or not password:
            raise ValueError("username and password of sasl.jaas.config must not be empty")
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={self._nonce}"
        self._expected: bytes | None = None
        """The signature by which the server proves that it knows the password; None before the second message."""

    def first(self) -> bytes:
        return (_HEADER + self._first).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise LoginRefused("its SCRAM message is not UTF-8") from None
        if self._expected is None:
            return self._final(text)
        self._check_signature(text)
        return None

    def _final(self, server_first: str) -> bytes:
        nonce, salt, iterations = self._parsed(server_first)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        without_proof = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
        signed = ",".join((self._first, server_first, without_proof)).encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
        self._expected = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _parsed(self, server_first: str) -> tuple[str, bytes, int]:
        match = _SERVER_FIRST.fullmatch(server_first)
        if match is None:
            raise LoginRefused("its first SCRAM message is malformed")
        nonce, iterations = match[1], int(match[3])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise LoginRefused("its SCRAM nonce does not go on from ours: the message is not an answer to this client")
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise LoginRefused(
                f"it asks for {iterations} SCRAM iterations; a client accepts {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
            )
        return nonce, _decoded(match[2], "salt"), iterations

    def _check_signature(self, server_final: str) -> None:
        match = _SERVER_FINAL.fullmatch(server_final)
        if match is None:
            raise LoginRefused("its last SCRAM message is malformed")
        if match[2] is not None:
            raise LoginRefused(f"SCRAM error {match[2]}")
        assert self._expected is not None
        if not hmac.compare_digest(_decoded(match[1], "signature"), self._expected):
            raise LoginRefused("its SCRAM signature is wrong: the server does not know the password of this user")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _decoded(text: str, what: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        found = b""
    if not found:
        raise LoginRefused(f"the {what} in its SCRAM message is not base64")
    return found
