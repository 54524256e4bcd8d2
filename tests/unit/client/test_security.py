"""Settings of security: what they mean together, what is refused, and that no secret shows."""

from __future__ import annotations

import dataclasses
import json
import pickle
import shutil
import subprocess
from pathlib import Path

import pytest

from highwater.client import Client, Security
from highwater.client.references import is_reference, resolved
from highwater.client.security import Access
from highwater.pipeline.reading import Reading
from tests.secured import Certificates, jaas

SECRET = 's3cr"et;'
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
REFERRED = PLAIN | {"sasl.jaas.config": jaas("PLAIN", "${env:A_SECRET}")}


def test_without_settings_there_is_no_security() -> None:
    assert Security.of({"client.id": "me", "security.protocol": "plaintext"}).access() == Access()
    assert Security().access() == Access()


def test_a_secret_is_looked_up_where_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    security = pickle.loads(pickle.dumps(Security.of(REFERRED)))
    security = Security.restored(json.loads(json.dumps(dataclasses.asdict(security)))["settings"])
    with pytest.raises(ValueError, match=r"sasl.jaas.config: \$\{env:A_SECRET\}: the environment .* has no variable"):
        Client("h:1", security=security)
    monkeypatch.setenv("A_SECRET", SECRET)
    login = Client("h:1", security=security)._access.login
    assert login is not None and login.exchange().first() == b"\0alice\0" + SECRET.encode()
    assert SECRET not in repr(login) + repr(security)


def test_a_secret_that_is_written_out_does_not_show() -> None:
    security = Security.of(PLAIN | {"sasl.jaas.config": jaas("PLAIN", "s3cret")})
    assert "s3cret" not in repr((security, security.access(), Reading("h:1", security=security)))


def test_references_are_those_of_kafkas_config_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.properties").write_text("db.password = s3cret\\u0021\n")
    (tmp_path / "mounted").write_text("s3cret\n")
    monkeypatch.setenv("A_SECRET", "s3cret")
    for text, value in (
        ("${env:A_SECRET}", "s3cret"),
        ("x ${env:A_SECRET}${env:A_SECRET}", "x s3crets3cret"),
        (f"${{file:{tmp_path}/s.properties:db.password}}", "s3cret!"),
        (f"${{directory:{tmp_path}:mounted}}", "s3cret"),
        ("${A_SECRET} $A_SECRET ${other:x}", "${A_SECRET} $A_SECRET ${other:x}"),
    ):
        assert resolved(text) == value
        assert is_reference(text) == (text.startswith("${") and value in ("s3cret", "s3cret!"))
    (tmp_path / "broken").write_text("a=s3cret\\uXYZ\n")
    for text, reason in (
        ("${env:NOT_THERE}", "no variable NOT_THERE"),
        (f"${{file:{tmp_path}/s.properties:other}}", "has no key other"),
        (f"${{file:{tmp_path}/none:a}}", "No such file"),
        (f"${{file:{tmp_path}/broken:a}}", "Malformed"),
        ("${file:mounted}", "expected"),
        (f"${{directory:{tmp_path}:../x}}", "not the name of a file"),
        (f"${{directory:{tmp_path}:none}}", "No such file"),
    ):
        with pytest.raises(ValueError, match=reason) as caught:
            resolved(text)
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "secret_in"),
    [
        (REFERRED, None),
        (PLAIN | {"sasl.jaas.config": jaas("PLAIN", SECRET.replace('"', ""))}, "sasl.jaas.config"),
        (PLAIN | {"sasl.jaas.config": jaas("PLAIN", "begins ${env:X}")}, "sasl.jaas.config"),
        (PLAIN | {"sasl.jaas.config": "${file:/x:jaas}"}, None),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/x", "ssl.key.password": "x"}, "ssl.key.password"),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "y"},
            "ssl.keystore.key",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/x", "ssl.key.password": "${env:X}"}, None),
    ],
)
def test_a_secret_that_is_written_out_is_found(settings: dict[str, str], secret_in: str | None) -> None:
    assert Security.of(settings).open_secret == secret_in


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is TLS: it must be one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism is given, but security.protocol is PLAINTEXT"),
        ({"ssl.truststore.location": "x"}, "ssl.truststore.location is given, but security.protocol is PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing: it must be one of PLAIN, SCRAM-SHA-256"),
        (PLAIN | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism is GSSAPI"),
        (PLAIN, "sasl.jaas.config is missing"),
        (PLAIN | {"sasl.jaas.config": jaas("SCRAM-SHA-256")}, "needs PlainLoginModule"),
        (PLAIN | {"sasl.jaas.config": 'PlainLoginModule required username="a";'}, "has no password"),
        (
            PLAIN | {"sasl.jaas.config": 'PlainLoginModule required username="a" password="b" s3cret="c";'},
            "option number 3 of PlainLoginModule is not known; there are username, password",
        ),
        (PLAIN | {"sasl.password": "s3cret"}, "sasl.password is not supported"),
        (REFERRED | {"sasl.oauthbearer.scope": "x"}, "it is for OAUTHBEARER"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"}, "can be https, or empty"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "names something else than TLSv1.2"),
        ({"security.protocol": "SSL", "ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"}, "no version up"),
        ({"security.protocol": "SSL", "ssl.truststore.password": "s3cret"}, "is not for PEM files"),
        ({"security.protocol": "SSL", "ssl.keystore.key": "s3cret"}, "ssl.keystore.certificate.chain"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "t.jks", "ssl.truststore.type": "JKS"},
            "keytool -importkeystore -srckeystore t.jks .*openssl pkcs12 -in store.p12 -nokeys -out store.pem",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        Security.of(settings)
    assert "s3cret" not in str(caught.value).replace("sasl.password", "")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sasl.oauthbearer.scope": "x"}, "token.endpoint.url is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://x"}, "must begin with https://"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://x/t"}, "client.id is missing"),
        ({"sasl.login.callback.handler.class": "my.Handler"}, "can only be OAuthBearerLoginCallbackHandler"),
        ({"sasl.oauthbearer.jwt.retriever.class": "a.JwtBearerJwtRetriever"}, "ClientCredentialsJwtRetriever or"),
    ],
)
def test_oauth_settings_that_do_not_fit_together_are_refused(more: dict[str, str], reason: str) -> None:
    usual = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "a.OAuthBearerLoginModule required;",
    }
    with pytest.raises(ValueError, match=reason):
        Security.of(usual | more)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on the PATH")
    return Certificates(tmp_path_factory.mktemp("tls") / "certificates")


def test_stores_of_java_are_recognized_and_refused(certificates: Certificates, tmp_path: Path) -> None:
    store = tmp_path / "store.p12"
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", str(certificates.client), "-out", str(store), "-passout", "pass:x"],
        check=True,
        capture_output=True,
    )
    other = tmp_path / "other"
    for file, content, reason in (
        (store, None, f"is a PKCS12 store, .*openssl pkcs12 -in {store}"),
        (other, b"\xfe\xed\xfe\xed\0\0", "is a JKS store"),
        (other, b"hello", "is not a PEM file"),
        (other, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no certificate that can be read"),
    ):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ValueError, match=reason):
            Security.of({"security.protocol": "SSL", "ssl.truststore.location": str(file)}).access()
    with pytest.raises(ValueError, match="none: No such file"):
        Security.of({"security.protocol": "SSL", "ssl.truststore.location": f"{tmp_path}/none"}).access()


def test_a_key_without_its_certificate_is_refused(certificates: Certificates) -> None:
    only_key = {"security.protocol": "SSL", "ssl.keystore.location": str(certificates.folder / "client.key")}
    with pytest.raises(ValueError, match="cannot be read .*it must have both"):
        Security.of(only_key).access()
