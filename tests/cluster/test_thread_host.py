"""Nodes in threads of this process: they end, whatever others keep."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from highwater.cluster import Cluster
from highwater.cluster.thread_host import ThreadHost
from highwater.model import NodeId


@pytest.mark.timeout(120)
def test_a_connection_that_its_peer_keeps_does_not_hold_up_a_stop_where_warnings_are_errors(tmp_path: Path) -> None:
    with Cluster(brokers=1, data_dir=tmp_path, config={"highwater.http.listener": "127.0.0.1:0"}) as cluster:
        host = cluster._hosts.of(NodeId(1))
        assert isinstance(host, ThreadHost) and host._steered is not None
        at = host._steered.node.http_endpoint
        assert at is not None
        with socket.create_connection(at) as idle:
            idle.sendall(b"GET ")
            cluster.stop(1)
            assert cluster.state(1) == "down"
