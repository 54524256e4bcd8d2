"""Our client and tools against Apache Kafka with TLS and SASL: each mechanism, and each way to be refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.client import Admin, AuthenticationFailed, Client, NewTopic, Security
from highwater.client.batch_sender import BatchSender
from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.cluster import Cluster
from highwater.config.properties import format_properties
from highwater.model import TopicPartition
from tests.apache import Ran
from tests.cluster.tools import call, ours, ours_as_process
from tests.secured import (
    CLIENT_SECRET,
    KEY_PASSWORD,
    MECHANISMS,
    PASSWORD,
    USER,
    SecuredKafka,
    identity_provider,
    unsigned_token,
)

SECONDS = 60.0
SECURED = [("TLS", None), *((listener, each) for listener in ("NAMED", "NAMEDTLS") for each in MECHANISMS)]


def brokers(at: str, settings: dict[str, str]) -> int:
    """How many a client with these settings sees."""
    with Client(at, timeout=SECONDS, security=Security.of(settings)) as client:
        client.refresh([])
        return len(client.view.brokers)


def refusal(at: str, settings: dict[str, str]) -> str:
    """The error of a client with these settings. It would retry for a minute what it takes for a passing trouble."""
    begun = time.monotonic()
    with pytest.raises(AuthenticationFailed) as caught:
        brokers(at, settings)
    assert time.monotonic() - begun < SECONDS / 2
    reason = str(caught.value)
    assert at in reason and "\n" not in reason and PASSWORD not in reason
    return reason


@pytest.mark.parametrize(("listener", "mechanism"), SECURED)
def test_records_go_in_and_come_back(secured_kafka: SecuredKafka, listener: str, mechanism: str | None) -> None:
    topic = f"records-{listener}-{mechanism}"
    security = Security.of(secured_kafka.settings(listener, mechanism))
    with Client(secured_kafka.at(listener), security=security) as client:
        Admin(client).create_topics([NewTopic(topic, 1, 1)])
        with BatchSender(client) as sender:
            sender.add(TopicPartition(topic, 0), [(0, None, b"x" * 300_000, [])] * 3)
            sender.flush()
        end = list_offsets(client, {TopicPartition(topic, 0): LATEST}, await_topic=True)[TopicPartition(topic, 0)]
    assert isinstance(end, FoundOffset) and end.offset == 3


def test_a_client_shows_its_certificate(secured_kafka: SecuredKafka) -> None:
    at, usual, made = secured_kafka.at("MUTUAL"), secured_kafka.settings("MUTUAL"), secured_kafka.certificates
    one_line = made.certificate_of("client").replace("\n", " ")
    inline = {"ssl.keystore.key": made.key_of("client"), "ssl.keystore.certificate.chain": one_line}
    locked = {"ssl.keystore.location": str(made.encrypted), "ssl.key.password": KEY_PASSWORD}
    for own in ({"ssl.keystore.location": str(made.client)}, inline, locked):
        assert brokers(at, usual | own) == 1
    assert "check the client's certificate in ssl.keystore.*" in refusal(at, usual)
    for password, reason in (({"ssl.key.password": "wrong"}, "is ssl.key.password right"), ({}, "is encrypted")):
        with pytest.raises(ValueError, match=reason):
            brokers(at, usual | {"ssl.keystore.location": str(made.encrypted)} | password)


def test_the_authority_may_be_in_the_settings_themselves(secured_kafka: SecuredKafka) -> None:
    certificates = secured_kafka.certificates.certificate_of("authority")
    assert (
        brokers(secured_kafka.at("TLS"), {"security.protocol": "SSL", "ssl.truststore.certificates": certificates}) == 1
    )


@pytest.mark.parametrize("mechanism", [each for each in MECHANISMS if each != "OAUTHBEARER"])
def test_a_wrong_password_is_told_at_once(secured_kafka: SecuredKafka, mechanism: str) -> None:
    reason = refusal(secured_kafka.at("NAMED"), secured_kafka.settings("NAMED", mechanism, "wr0ng"))
    assert f"refused user alice with {mechanism}" in reason and "check username and password" in reason
    assert "wr0ng" not in reason


def test_an_unknown_authority_is_told_at_once(secured_kafka: SecuredKafka) -> None:
    other = {"ssl.truststore.location": str(secured_kafka.certificates.stranger)}
    reason = refusal(secured_kafka.at("TLS"), secured_kafka.settings("TLS") | other)
    assert "signed by an authority that this client does not know" in reason and "ssl.truststore.location" in reason


def test_a_wrong_host_name_is_told_at_once(secured_kafka: SecuredKafka) -> None:
    at, settings = secured_kafka.at("ELSEWHERE"), secured_kafka.settings("ELSEWHERE")
    assert "is not for the host 127.0.0.1" in refusal(at, settings)
    assert brokers(at, settings | {"ssl.endpoint.identification.algorithm": ""}) == 1


def test_a_client_that_speaks_another_protocol_than_the_listener_is_told_at_once(secured_kafka: SecuredKafka) -> None:
    plain, settings = secured_kafka.bootstrap, secured_kafka.settings
    for at, given, reason in (
        (secured_kafka.at("TLS"), {}, "speaks TLS: set security.protocol to SSL or SASL_SSL"),
        (secured_kafka.at("NAMEDTLS"), settings("NAMED", "PLAIN"), "speaks TLS"),
        (plain, settings("TLS"), "does not speak TLS"),
        (secured_kafka.at("NAMED"), settings("NAMEDTLS", "PLAIN"), "does not speak TLS"),
        (plain, settings("NAMED", "PLAIN"), "asks nobody to authenticate"),
        (secured_kafka.at("NAMED"), {}, "set security.protocol to SASL_PLAINTEXT, sasl.mechanism (PLAIN, SCRAM"),
        (secured_kafka.at("NAMEDTLS"), settings("TLS"), "set security.protocol to SASL_SSL"),
        (secured_kafka.at("ONLYSCRAM"), settings("ONLYSCRAM", "PLAIN"), "does not offer PLAIN"),
    ):
        assert reason in refusal(at, given), (at, given)
    assert "what it offers (SCRAM-SHA-512)" in refusal(secured_kafka.at("ONLYSCRAM"), settings("ONLYSCRAM", "PLAIN"))


def test_our_own_brokers_say_that_they_have_no_security(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    with Cluster(brokers=1) as cluster:
        servers = cluster.bootstrap_servers
        assert "asks nobody to authenticate" in refusal(servers, secured_kafka.settings("NAMED", "PLAIN"))
        assert "does not speak TLS" in refusal(servers, secured_kafka.settings("TLS"))
        assert brokers(servers, {"security.protocol": "PLAINTEXT"}) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_connection_outlives_its_session(secured_kafka: SecuredKafka, mechanism: str) -> None:
    """The broker closes a connection whose session is over. Batches stay in flight while a new one begins (KIP-368)."""
    partition = TopicPartition(f"sessions-{mechanism}", 0)
    security = Security.of(secured_kafka.settings("BRIEF", mechanism))
    with (
        Client(secured_kafka.at("BRIEF"), security=security) as client,
        BatchSender(client, max_pending_bytes=2000) as sender,
    ):
        Admin(client).create_topics([NewTopic(partition.topic, 1, 1)])
        sent, deadline, longest = 0, time.monotonic() + 2 * SECONDS, (0, 0)
        # A machine that pauses may miss the end of a session: the broker closes that connection, and another follows.
        while min(longest) < 2 and time.monotonic() < deadline:
            for _ in range(20):
                sender.add(partition, [(0, None, b"x" * 500, [])])
            sent += 20
            client.refresh([])
            (writing,) = sender._connections.values()
            longest = max(longest[0], client.any_connection().sessions), max(longest[1], writing.sessions)
        sender.flush()
        assert min(longest) >= 2
        end = list_offsets(client, {partition: LATEST})[partition]
    assert isinstance(end, FoundOffset) and end.offset == sent


def test_tokens_come_from_an_identity_provider(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    at = secured_kafka.at("NAMED")
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    with identity_provider() as (url, forms):
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{module};",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.credentials.client.id": USER,
            "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.scope": "topics",
        }
        with Client(at, security=Security.of(settings)) as client:
            client.refresh([])
            client.dial(client.bootstrap[0]).close()
        assert forms == [{"grant_type": ["client_credentials"], "scope": ["topics"]}], "one token for all connections"
        older = {key: value for key, value in settings.items() if "client.credentials" not in key}
        older["sasl.jaas.config"] = f'{module} clientId="{USER}" clientSecret="{CLIENT_SECRET}";'
        assert brokers(at, older) == 1
        for wrong, reason in (
            ({"sasl.oauthbearer.client.credentials.client.secret": "wr0ng"}, "HTTP status 401; check sasl.oauthbearer"),
            ({"sasl.oauthbearer.token.endpoint.url": url.replace("/token", "/elsewhere")}, "HTTP status 302"),
        ):
            with pytest.raises(AuthenticationFailed, match=reason) as caught:
                brokers(at, settings | wrong)
            assert "wr0ng" not in str(caught.value) and CLIENT_SECRET not in str(caught.value)


def test_a_token_may_lie_in_a_file(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = secured_kafka.settings("NAMED", "OAUTHBEARER")
    settings["sasl.jaas.config"] = "x.OAuthBearerLoginModule required;"
    settings["sasl.oauthbearer.token.endpoint.url"] = file.as_uri()
    file.write_text(unsigned_token(USER, 60))
    assert brokers(secured_kafka.at("NAMED"), settings) == 1
    file.write_text(unsigned_token(USER, -60))
    reason = refusal(secured_kafka.at("NAMED"), settings)
    assert f"refused the token in {file}" in reason and "check the token" in reason


@pytest.fixture(params=[("TLS", None), ("NAMEDTLS", "SCRAM-SHA-512")], ids=["SSL", "SASL_SSL"])
def command_line(
    secured_kafka: SecuredKafka, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, ...]]:
    """--bootstrap-server and --command-config of a secured listener; the password is in the environment."""
    listener, mechanism = request.param
    monkeypatch.setenv("ALICES_PASSWORD", PASSWORD)
    file = tmp_path / "client.properties"
    file.write_text(format_properties(secured_kafka.settings(listener, mechanism, "${env:ALICES_PASSWORD}")))
    yield "--bootstrap-server", secured_kafka.at(listener), "--command-config", str(file)


def ran(tool: str, *args: str, input: str = "") -> Ran:
    """A producer reads a real pipe."""
    each = call(tool, *args, input=input)
    return ours_as_process(each) if tool == "console-producer" else ours(each)


def run(tool: str, *args: str, input: str = "") -> Ran:
    done = ran(tool, *args, input=input)
    assert done.rc == 0, done
    return done


def test_every_tool_speaks_to_a_secured_cluster(command_line: tuple[str, ...], tmp_path: Path) -> None:
    topic = f"tools-{command_line[1].rpartition(':')[2]}"
    run("topics", *command_line, "--create", "--topic", topic, "--partitions", "1")
    assert topic in run("topics", *command_line, "--list").stdout.split()
    run("console-producer", *command_line, "--topic", topic, input="one\ntwo\nthree\n")
    reading = ("--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "3")
    assert run("console-consumer", *command_line, *reading).stdout == "one\ntwo\nthree\n"
    assert f"{topic}:0:3" in run("get-offsets", *command_line, "--topic", topic).stdout
    assert topic in run("groups", *command_line, "--describe", "--group", topic).stdout
    run("configs", *command_line, "--alter", "--topic", topic, "--add-config", "retention.ms=1000000")
    assert "retention.ms=1000000" in run("configs", *command_line, "--describe", "--topic", topic).stdout
    before = tmp_path / "before.json"
    before.write_text(f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "offset": 1}}]}}')
    assert "low_watermark: 1" in run("delete-records", *command_line, "--offset-json-file", str(before)).stdout
    assert "ClusterId" in run("quorum", *command_line, "describe", "--status").stdout
    run("leader-election", *command_line, "--election-type", "preferred", "--all-topic-partitions")


def test_the_console_tools_take_the_older_names_of_the_flag(
    secured_kafka: SecuredKafka, command_line: tuple[str, ...]
) -> None:
    server, file = command_line[:2], command_line[3]
    topic = f"older-{command_line[1].rpartition(':')[2]}"
    run("topics", *command_line, "--create", "--topic", topic)
    run("console-producer", *server, "--producer.config", file, "--topic", topic, input="one\n")
    reading = ("--topic", topic, "--from-beginning", "--max-messages", "1")
    assert "one\n" in run("console-consumer", *server, "--consumer.config", file, *reading).stdout


def test_a_tool_with_a_wrong_password_ends_with_one_line(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    server = ("--bootstrap-server", secured_kafka.at("NAMED"), "--command-config", str(file))
    tools = {
        "topics": ("--list",),
        "console-consumer": ("--topic", "any"),
        "console-producer": ("--topic", "any"),
        "groups": ("--list",),
        "get-offsets": (),
        "configs": ("--describe", "--topic", "any"),
        "quorum": ("describe", "--status"),
    }
    file.write_text(format_properties(secured_kafka.settings("NAMED", "PLAIN", "wr0ng")))
    for tool, args in tools.items():
        done = ran(tool, *server, *args, input="a line\n")
        output = (done.stdout + done.stderr).strip()
        assert done.rc != 0 and output.count("refused user alice with PLAIN") == 1, (tool, done)
        assert "wr0ng" not in output and "Traceback" not in output
    file.write_text(format_properties(secured_kafka.settings("NAMED", "PLAIN", "${env:NOT_THERE}")))
    for tool, args in tools.items():
        done = ran(tool, *server, *args)
        output = (done.stdout + done.stderr).strip()
        assert done.rc != 0 and output.endswith("has no variable NOT_THERE"), (tool, done)
