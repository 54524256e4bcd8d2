"""The clusters against which the tools are compared with Apache's own."""

from __future__ import annotations

import pytest

from tests.cluster.tools import Server


@pytest.fixture(scope="session", params=["apache"])
def server(request: pytest.FixtureRequest, apache: None) -> Server:
    """Each kind of server in turn; a further kind is one more name here and a branch that starts it."""
    kafka = request.getfixturevalue("apache_kafka")
    return Server(kafka.bootstrap, kafka.log_dir)
