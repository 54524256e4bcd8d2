"""There are no transactions yet, and a client that wants one hears so at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from highwater.cluster import Cluster


@pytest.mark.timeout(120)
def test_a_client_that_asks_for_transactions_learns_at_once_that_there_are_none(tmp_path: Path) -> None:
    with Cluster(brokers=1, data_dir=tmp_path) as cluster:
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "orders", "log_level": 0}
        )
        with pytest.raises(KafkaException) as refused:
            producer.init_transactions(60)
        error: KafkaError = refused.value.args[0]
        assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert error.fatal() and not error.retriable()
        assert "Transactions are not supported by this version." in error.str()
