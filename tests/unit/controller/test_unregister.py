from __future__ import annotations

from highwater.controller.unregister import unregister_broker
from highwater.errors import Code
from highwater.wire.messages.unregister_broker_record import UnregisterBrokerRecord
from highwater.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.unit.controller.clusters import cluster, epoch, node_config, partition, then, with_topic

CONFIG = node_config()


def test_an_unregistered_broker_leaves_isr_elr_and_registry() -> None:
    head = with_topic(cluster(1, 2, 3, elr=True), "a", [1, 2, 3])
    head = with_topic(head, "b", [2, 1], isr=[2], eligible_leader_replicas=[1])
    decision = unregister_broker(head, UnregisterBrokerRequest(broker_id=1), CONFIG)
    assert (decision.response.error_code, decision.response.error_message) == (Code.NONE, None)
    assert decision.records[-1] == UnregisterBrokerRecord(broker_id=1, broker_epoch=epoch(1))
    after = then(head, decision.records)
    assert after.brokers.get(1) is None
    assert (partition(after, "a")["leader"], partition(after, "a")["isr"]) == (2, (2, 3))
    assert partition(after, "b")["elr"] == ()


def test_without_elr_an_unregistered_broker_stays_in_an_isr_where_it_is_the_last() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2], isr=[1])
    after = then(head, unregister_broker(head, UnregisterBrokerRequest(broker_id=1), CONFIG).records)
    assert (partition(after, "a")["leader"], partition(after, "a")["isr"]) == (-1, (1,))


def test_an_unregistered_broker_cannot_be_unregistered() -> None:
    decision = unregister_broker(cluster(1), UnregisterBrokerRequest(broker_id=9), CONFIG)
    assert decision.response.error_code == Code.BROKER_ID_NOT_REGISTERED
    assert "Broker ID 9 is not currently registered" in (decision.response.error_message or "")
    assert not decision.records
