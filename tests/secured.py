"""An Apache Kafka with a listener of each security protocol, its certificates, and the settings of its clients."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.apache import ApacheKafka

PASSWORD = "Pa55;of=alice"
"""With characters that mean something in JAAS files."""
KEY_PASSWORD = "key-Pa55word"
CLIENT_SECRET = "client-5ecret"
USER = "alice"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SESSION_MS = 2500
LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "NAMED": "SASL_PLAINTEXT",
    "NAMEDTLS": "SASL_SSL",
    "ONLYSCRAM": "SASL_PLAINTEXT",
    "BRIEF": "SASL_PLAINTEXT",
}
"""TLS; TLS with certificates of clients; TLS with a certificate for another host; SASL without and with TLS; SASL with
SCRAM-SHA-512 alone; SASL with short sessions."""
_SECURITY = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
}


def jaas(mechanism: str, password: str = PASSWORD, username: str = USER) -> str:
    if mechanism == "OAUTHBEARER":
        return f'{_MODULES[mechanism]} required unsecuredLoginStringClaim_sub="{username}";'
    return f'{_MODULES[mechanism]} required username="{username}" password="{password}";'


class Certificates:
    """An authority, and what it signs; all keys are made anew for each run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.authority = self._authority("authority")
        self.stranger = self._authority("stranger")
        self.server = self._signed("server", "DNS:localhost,IP:127.0.0.1")
        self.elsewhere = self._signed("elsewhere", "DNS:elsewhere.example")
        self.client = self._signed("client", "DNS:client.example")
        self.encrypted_key = self._run_to(
            "client.encrypted.pem",
            *("pkcs8", "-topk8", "-in", str(folder / "client.key"), "-passout", f"pass:{KEY_PASSWORD}"),
        )
        self.encrypted = folder / "client.locked.pem"
        self.encrypted.write_text(self.encrypted_key.read_text() + (folder / "client.crt").read_text())

    def key_of(self, name: str) -> str:
        return (self.folder / f"{name}.key").read_text()

    def certificate_of(self, name: str) -> str:
        return (self.folder / f"{name}.crt").read_text()

    def _authority(self, name: str) -> Path:
        return self._run_to(
            f"{name}.crt",
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-keyout", str(self.folder / f"{name}.key"), "-subj", f"/CN={name}"),
        )

    def _signed(self, name: str, hosts: str) -> Path:
        request = self._run_to(
            f"{name}.csr",
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(self.folder / f"{name}.key"), "-subj", f"/CN={name}"),
        )
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={hosts}\n")
        certificate = self._run_to(
            f"{name}.crt",
            *("x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extensions), "-CAcreateserial"),
            *("-CA", str(self.authority), "-CAkey", str(self.folder / "authority.key")),
        )
        both = self.folder / f"{name}.pem"
        both.write_text(self.key_of(name) + certificate.read_text())
        return both

    def _run_to(self, name: str, *arguments: str) -> Path:
        path = self.folder / name
        subprocess.run(["openssl", *arguments, "-out", str(path)], check=True, capture_output=True)
        return path


class SecuredKafka(ApacheKafka):
    def __init__(self, directory: Path) -> None:
        self.certificates = Certificates(directory / "certificates")
        users = [
            f"--add-scram={mechanism}=[name={USER},password={PASSWORD}]"
            for mechanism in MECHANISMS
            if mechanism.startswith("SCRAM")
        ]
        super().__init__(directory, properties=self._properties(), listeners=LISTENERS, format_options=users)

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.listener_ports[listener]}"

    def settings(self, listener: str, mechanism: str | None = None, password: str = PASSWORD) -> dict[str, str]:
        """The right ones, for a client of this listener."""
        protocol = LISTENERS[listener]
        found = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.certificates.authority)}
        if mechanism is not None:
            found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, password)}
        return found

    def _properties(self) -> dict[str, str]:
        certificates = self.certificates
        found = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.elsewhere.ssl.keystore.type": "PEM",
            "listener.name.elsewhere.ssl.keystore.location": str(certificates.elsewhere),
            "listener.name.brief.plain.connections.max.reauth.ms": str(SESSION_MS),
            "listener.name.brief.oauthbearer.connections.max.reauth.ms": str(SESSION_MS),
        }
        for listener, protocol in LISTENERS.items():
            if protocol.startswith("SASL"):
                enabled = ("SCRAM-SHA-512",) if listener == "ONLYSCRAM" else MECHANISMS
                prefix = f"listener.name.{listener.lower()}"
                found[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(enabled)
                for mechanism in enabled:
                    found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = _server_jaas(mechanism)
        return found


def _server_jaas(mechanism: str) -> str:
    if mechanism == "PLAIN":
        return f'{_MODULES[mechanism]} required user_{USER}="{PASSWORD}";'
    if mechanism == "OAUTHBEARER":
        return f'{_MODULES[mechanism]} required unsecuredLoginStringClaim_sub="broker";'
    return f"{_MODULES[mechanism]} required;"


def unsigned_token(subject: str, seconds: float) -> str:
    def part(content: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': now, 'exp': now + seconds})}."


@contextmanager
def identity_provider(seconds: float = 3600) -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """The address of a token endpoint that knows one client, and the forms that it was sent."""
    forms: list[dict[str, list[str]]] = []
    right = "Basic " + base64.b64encode(f"{USER}:{CLIENT_SECRET}".encode()).decode()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            forms.append(urllib.parse.parse_qs(form))
            if self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "/token")
                self.end_headers()
                return
            if self.headers["Authorization"] != right:
                self.send_response(401)
                self.end_headers()
                return
            answer = json.dumps({"access_token": unsigned_token(USER, seconds), "token_type": "Bearer"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token", forms
        finally:
            server.shutdown()
            thread.join()
