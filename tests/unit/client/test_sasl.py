"""The SASL machines: bytes in, bytes out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.client.sasl.exchange import LoginRefused
from highwater.client.sasl.jaas import parse_jaas
from highwater.client.sasl.oauthbearer import OAuthBearerExchange
from highwater.client.sasl.plain import PlainExchange
from highwater.client.sasl.scram import MOST_ITERATIONS, ScramExchange
from highwater.client.sasl.tokens import Tokens, expiry, unsecured_token

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={SERVER_NONCE},s={SALT},i=4096"
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(mechanism: str = "SCRAM-SHA-256", username: str = "user") -> ScramExchange:
    return ScramExchange(mechanism, username, "pencil", nonce=NONCE)


def test_plain_sends_name_and_password_and_expects_nothing() -> None:
    exchange = PlainExchange("alice", "päss")
    assert exchange.first() == "\0alice\0päss".encode()
    assert exchange.answer(b"") is None
    with pytest.raises(LoginRefused):
        exchange.answer(b"and now?")
    for name, password in (("", "x"), ("x", ""), ("a\0b", "x"), ("x", "a\0b")):
        with pytest.raises(ValueError, match="must"):
            PlainExchange(name, password)


def test_scram_says_what_rfc_7677_says() -> None:
    exchange = scram()
    assert exchange.first() == f"n,,n=user,r={NONCE}".encode()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.answer(SERVER_FIRST.encode()) == f"c=biws,r={SERVER_NONCE},p={proof}".encode()
    assert exchange.answer(SERVER_FINAL.encode()) is None


def test_scram_with_sha_512_is_checked_by_a_server_that_knows_only_keys() -> None:
    exchange = scram("SCRAM-SHA-512", "na=me,d")
    assert exchange.first() == f"n,,n=na=3Dme=2Cd,r={NONCE}".encode()
    final = exchange.answer(SERVER_FIRST.encode()) or b""
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", base64.b64decode(SALT), 4096)
    stored = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    without_proof, _, proof = final.decode().rpartition(",p=")
    signed = f"n=na=3Dme=2Cd,r={NONCE},{SERVER_FIRST},{without_proof}".encode()
    signature = hmac.digest(stored, signed, "sha512")
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.sha512(key).digest() == stored
    server = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), signed, "sha512")
    assert exchange.answer(b"v=" + base64.b64encode(server)) is None


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (f"r=another{SERVER_NONCE},s={SALT},i=4096", "nonce does not go on from ours"),
        (f"r={NONCE},s={SALT},i=4096", "nonce does not go on from ours"),
        (f"r={SERVER_NONCE},s={SALT},i=4095", "4095 SCRAM iterations"),
        (f"r={SERVER_NONCE},s={SALT},i={MOST_ITERATIONS + 1}", "SCRAM iterations"),
        (f"r={SERVER_NONCE},s={SALT},i=99999999999", "malformed"),
        (f"r={SERVER_NONCE},s=x,i=4096", "salt"),
        (f"r={SERVER_NONCE},i=4096", "malformed"),
        ("", "malformed"),
    ],
)
def test_scram_does_not_go_on_after_a_first_message_that_is_wrong(first: str, reason: str) -> None:
    with pytest.raises(LoginRefused, match=reason):
        scram().answer(first.encode())


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ("v=" + base64.b64encode(b"x" * 32).decode(), "signature is wrong"),
        ("v=" + SERVER_FINAL[2:40], "not base64|signature is wrong"),
        ("e=invalid-proof", "SCRAM error invalid-proof"),
        ("", "malformed"),
    ],
)
def test_scram_trusts_no_server_that_cannot_prove_itself(last: str, reason: str) -> None:
    exchange = scram()
    exchange.answer(SERVER_FIRST.encode())
    with pytest.raises(LoginRefused, match=reason):
        exchange.answer(last.encode())


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=3), st.booleans())
def test_hostile_bytes_only_ever_refuse(messages: list[bytes], is_begun: bool) -> None:
    exchange = scram()
    if is_begun:
        exchange.answer(SERVER_FIRST.encode())
    with pytest.raises(LoginRefused):
        for message in messages:
            exchange.answer(message)
            assert message != SERVER_FINAL.encode()


def test_two_exchanges_have_two_nonces() -> None:
    assert ScramExchange("SCRAM-SHA-256", "a", "b").first() != ScramExchange("SCRAM-SHA-256", "a", "b").first()


def test_oauthbearer_sends_the_token_and_its_extensions() -> None:
    exchange = OAuthBearerExchange("a.b.c", {"traceId": "123 x"})
    assert exchange.first() == b"n,,\x01auth=Bearer a.b.c\x01traceId=123 x\x01\x01"
    assert exchange.answer(b"") is None
    assert exchange.answer(b'{"status":"invalid_token"}') == b"\x01"
    assert exchange.reason == "invalid_token"
    assert exchange.answer(b"[") == b"\x01"
    for token, extensions in (("", {}), ("a\x01b", {}), ("a", {"auth": "x"}), ("a", {"x1": "y"}), ("a", {"x": "\x01"})):
        with pytest.raises(ValueError):
            OAuthBearerExchange(token, extensions)


def test_an_unsecured_token_was_never_issued_in_the_next_millisecond() -> None:
    """Kafka's broker compares the claim with its clock, which has whole milliseconds, and refuses a token of later."""
    _, claims, _ = unsecured_token({"unsecuredLoginStringClaim_sub": "a"}, 1000.1239).split(".")
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["iat"] == 1000.123


def test_an_unsecured_token_has_the_claims_that_are_asked_for() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    header, claims, signature = unsecured_token(options, 1000).split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"} and not signature
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {
        "sub": "alice",
        "level": 3,
        "scope": ["read", "write"],
        "iat": 1000,
        "exp": 1060,
    }
    for wrong in ({}, {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "soon"}):
        with pytest.raises(ValueError, match="sasl.jaas.config"):
            unsecured_token(wrong, 1000)


def test_a_token_is_kept_for_most_of_its_life() -> None:
    now, made = [1000.0], []

    def make() -> str:
        made.append(
            unsecured_token({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "100"}, now[0])
        )
        return made[-1]

    tokens = Tokens(make, lambda: now[0])
    assert expiry(tokens.token()) == 1100
    now[0] = 1079.0
    assert tokens.token() == made[0] and len(made) == 1
    now[0] = 1080.0
    assert tokens.token() == made[1] != made[0]
    opaque = Tokens(lambda: made.append("opaque") or "opaque", lambda: now[0])
    assert [opaque.token(), opaque.token()] == ["opaque"] * 2 and made.count("opaque") == 2, "its life is not known"


@pytest.mark.parametrize("text", ["opaque", "a.b.c", "a..", "a.e30.c", "a.WzFd.c", ""])
def test_what_is_no_jwt_with_an_end_has_none(text: str) -> None:
    assert expiry(text) == 0


def test_a_login_module_is_read_as_java_reads_it() -> None:
    module = parse_jaas(
        'shaded.org.apache.kafka.common.security.plain.PlainLoginModule  REQUIRED\n username="al\\"ice;" '
        "password='it is \\\\ = 1' serviceName=kafka ;\n"
    )
    assert module.name == "PlainLoginModule"
    assert module.options == {"username": 'al"ice;', "password": "it is \\ = 1", "serviceName": "kafka"}
    assert parse_jaas("a.B required;").options == {}
    assert "it is" not in repr(module)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3cret",
        'a.B password="s3cret";',
        'a.B required password="s3cret"',
        'a.B required password="s3cret;',
        'a.B required password="x"s3cret";',
        'a.B required password=s3"cret;',
        "a.B required password=s3cret=x;",
        'a.B required password="s3cret"; c.D required;',
        'a.B sometimes password="s3cret";',
        "a.B required s3cret;",
    ],
)
def test_a_broken_login_module_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="sasl.jaas.config cannot be read") as caught:
        parse_jaas(text)
    assert "s3" not in str(caught.value)
