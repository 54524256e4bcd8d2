"""Requests that no page sends: each is refused with one line, and none is an error of the console."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.client.security import PLAINTEXT
from highwater.cluster import Cluster
from highwater.console.access import CHANGE_HEADER, MOST_BODY_BYTES, Access
from highwater.console.application import Console
from highwater.console.changes import Changes, OrderRefused
from highwater.console.clients import Clients
from highwater.console.cluster_reader import ClusterReader
from highwater.console.listening import listening
from highwater.console.serving import serve

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-the-test"
SURROGATE = "\ud800"
"""Half a letter: JSON can write it, and UTF-8 cannot."""
LONG = "x" * 40_000
"""Longer than a name may be in Kafka's protocol."""
TOPIC = "/api/topics/orders"
MOVED = {"topic": "orders", "partition": 0, "after": [1], "target": [1]}
ORDERS: dict[str, dict[str, Any]] = {
    f"{TOPIC}/records": {"key": "k", "value": "v", "headers": [["h", "x"]], "partition": 0},
    f"{TOPIC}/settings": {"name": "retention.ms", "value": "1000"},
    f"{TOPIC}/elect": {"partition": 0},
    f"{TOPIC}/replay": {"partition": "0", "from": "0", "until": "5", "to": "copy", "by": "key", "time": "now"},
    "/api/group/preview?group=g": {"topic": "orders", "form": "offset", "at": "0", "partition": 0},
    "/api/group/reset?group=g": {"rows": [{"topic": "orders", "partition": 0, "after": "0"}]},
    "/api/move/plan": {"kind": "move", "topic": "orders", "partition": 0, "replicas": [1], "throttle": "1000"},
    "/api/move/start": {"kind": "move", "rows": [MOVED], "throttle": "1000"},
    "/api/move/cancel": {"rows": [MOVED]},
    "/api/move/stop": {},
    "/api/fault": {"verb": "slow", "nodes": [1, 2], "ms": 5},
}
"""An order that is in order, for each address that takes one."""
NULLABLE = {"key", "value", "headers", "partition", "throttle"}
ODD: list[Any] = [
    None, True, -1, 1.5, 10**30, 1 << 31, "", "x", "-1", "9" * 19, "9" * 5000, "٣", "\x00", SURROGATE, LONG, [], [[]],
    [1, "x", None], [SURROGATE], {}, {"a": {}},
]  # fmt: skip


class Asked:
    def __init__(self, cluster: Cluster) -> None:
        on = listening("127.0.0.1", 0)
        self.port = on.getsockname()[1]
        self.access = Access(TOKEN, self.port)
        clients = Clients(cluster.bootstrap_servers, PLAINTEXT)
        reader = ClusterReader(clients)
        self.given: list[Any] = []
        application = Console(self.access, reader, Changes(clients, True, self.refuse, Path("data"))).application()
        self._over = threading.Event()
        self._thread = threading.Thread(target=serve, args=(application, on, self._over.is_set), daemon=True)
        self._thread.start()

    def refuse(self, order: Any) -> str:
        self.given.append(order)
        raise OrderRefused("no such nodes")

    def ask(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Cookie": f"{self.access.cookie_name}={TOKEN}", CHANGE_HEADER: self.access.change_token}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def order(self, path: str, order: Any) -> tuple[int, bytes]:
        return self.ask(path, "POST", json.dumps(order).encode())

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=2)
        cluster.create_topic("copy")
        running = Asked(cluster)
        yield running
        running.close()


@pytest.fixture(autouse=True)
def without_a_traceback(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert "Traceback" not in capfd.readouterr().err


def refused(answer: tuple[int, bytes], what: object) -> None:
    status, body = answer
    assert 400 <= status < 500, (what, status, body[:300])
    reason = json.loads(body)["error"]
    assert reason and "\n" not in reason, (what, reason)


def answered(answer: tuple[int, bytes], what: object) -> None:
    """With what was asked for, or with a reason why not."""
    if answer[0] != 200:
        refused(answer, what)


@pytest.mark.parametrize("path", ORDERS)
def test_an_order_that_is_in_order_is_carried_out(asked: Asked, path: str) -> None:
    status, body = asked.order(path, ORDERS[path])
    if path == "/api/fault":
        assert (status, asked.given[-1]) == (409, ORDERS[path]) and b"no such nodes" in body
    elif path.startswith("/api/group/reset"):
        assert status == 404 and b"GROUP_ID_NOT_FOUND" in body, body
    else:
        assert status == 200, body


@pytest.mark.parametrize("path", ORDERS)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"1", b"null", b'"x"', b"\xff\xfe", b'{"rows": NaN}', b'{"rows": 1, "rows": 2}',
     b'{"a":' * 20_000, b'{"rows": ' + b"9" * 5000 + b"}", b"{} {}"],
    ids=lambda body: body[:12],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(asked: Asked, path: str, body: bytes) -> None:
    refused(asked.ask(path, "POST", body), body[:20])


@pytest.mark.parametrize("path", ORDERS)
def test_a_body_that_is_too_large_is_refused(asked: Asked, path: str) -> None:
    order = {**ORDERS[path], "value": "x" * MOST_BODY_BYTES}
    assert asked.order(path, order)[0] == 413


@pytest.mark.parametrize("path", ORDERS)
def test_a_field_that_is_unknown_or_of_another_kind_is_refused(asked: Asked, path: str) -> None:
    refused(asked.order(path, {**ORDERS[path], "colour": "red"}), "an unknown field")
    for field, good in ORDERS[path].items():
        for odd in ODD:
            order = {**ORDERS[path], field: odd}
            is_kind = type(odd) is type(good) or (odd is None and field in NULLABLE)
            check = answered if is_kind else refused
            check(asked.order(path, order), (path, field, str(odd)[:40]))
            assert is_kind or not asked.given or asked.given[-1] != order, "nothing of it reached `highwater up`"


@pytest.mark.parametrize("path", [path for path, order in ORDERS.items() if "rows" in order])
def test_rows_that_the_console_never_sent_are_refused(asked: Asked, path: str) -> None:
    (row,) = ORDERS[path]["rows"]
    for row_like in ODD:
        refused(asked.order(path, {"rows": [row_like]}), row_like)
    for field, good in row.items():
        if field in ("after", "target") and path.endswith("cancel") is not (field == "target"):
            continue  # this address does not look at it
        for odd in ODD:
            check = answered if type(odd) is type(good) else refused
            check(asked.order(path, {"rows": [{**row, field: odd}]}), (path, field, str(odd)[:40]))


@pytest.mark.parametrize("odd", ["-1", "1.5", "9" * 19, "9" * 20, "9" * 900, "%D9%A3", "x", "%00", "%ff", "2147483648"])
def test_an_odd_number_in_an_address_is_refused_or_has_an_answer(asked: Asked, odd: str) -> None:
    for path in (
        f"{TOPIC}/whole?partition={odd}&offset=0",
        f"{TOPIC}/whole?partition=0&offset={odd}",
        f"{TOPIC}/records?start=offset&at=0&partition={odd}",
        f"{TOPIC}/export?format=csv&partition={odd}",
        f"{TOPIC}/placement?partition={odd}",
        f"/api/events?view=lanes&topic=orders&partition={odd}" if odd != "9" * 19 else f"{TOPIC}/placement?partition=",
        f"{TOPIC}/records?start={odd}",
        f"{TOPIC}/export?format={odd}",
        f"/api/events?view={odd}",
        f"/api/recordings/{odd}",
        f"/static/{odd}",
    ):
        refused(asked.ask(path), path)
    for path in (
        f"{TOPIC}/records?start=offset&partition=0&at={odd}",
        f"{TOPIC}/records?start=time&at={odd}",
        f"{TOPIC}/records?limit={odd}",
        f"{TOPIC}/records?path={odd}",
    ):
        answered(asked.ask(path), path)


def test_a_parameter_that_is_unknown_doubled_or_endless_is_refused(asked: Asked) -> None:
    for path in ("records", "settings", "whole", "export"):
        refused(asked.ask(f"{TOPIC}/{path}?colour=red"), path)
    for path in ("/api/topics", "/api/session", "/api/events", "/api/recordings"):
        refused(asked.ask(f"{path}?colour=red"), path)
    doubled = (f"{TOPIC}/records?limit=1&limit=2", "/api/events?view=topics&view=overview", f"{TOPIC}/key?key=a&key=b")
    for path in doubled:
        refused(asked.ask(path), path)
        assert b"given twice" in asked.ask(path)[1]
    refused(asked.ask(f"{TOPIC}/key?key={'x' * 1001}"), "an endless key")
    refused(asked.order("/api/group/preview?group=g&group=h", ORDERS["/api/group/preview?group=g"]), "two groups")


@pytest.mark.parametrize("name", ["%00", "%ff", "..", "%ed%a0%80", "%0a", "oders", "x" * 249, "x" * 250, LONG])
def test_a_topic_whose_name_cannot_be_is_refused(asked: Asked, name: str) -> None:
    for tail in ("records", "settings", "placement?partition=0", "key?key=x", "whole?partition=0&offset=0",
                 "export?format=csv"):  # fmt: skip
        refused(asked.ask(f"/api/topics/{name}/{tail}"), (name[:20], tail))
    for path, order in ORDERS.items():
        if path.startswith(TOPIC):
            refused(asked.order(path.replace("orders", name), order), (name[:20], path))
    refused(asked.ask(f"/api/events?view=lanes&topic={LONG}&partition=0"), "lanes")


@pytest.mark.parametrize("group", ["", "x" * 1001, LONG])
def test_offsets_of_a_group_whose_name_cannot_be_are_not_reset(asked: Asked, group: str) -> None:
    for verb in ("preview", "reset"):
        refused(
            asked.order(f"/api/group/{verb}?group={group}", ORDERS[f"/api/group/{verb}?group=g"]), (verb, group[:20])
        )


def test_an_address_that_takes_no_change_refuses_one(asked: Asked) -> None:
    for path in ("/api/session", "/api/topics", "/api/nowhere", f"{TOPIC}/export", "/"):
        assert asked.order(path, {})[0] in (404, 405), path
    assert asked.ask("/api/fault")[0] == 404
