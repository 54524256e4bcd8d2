"""While a node recovers for long its listener is there and answers ApiVersions; a short start lets nobody in early."""

from __future__ import annotations

from highwater.broker.role import HELD_AFTER_SECONDS
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from tests.unit.broker.living import NODE, Living


def test_a_long_recovery_is_answered_for() -> None:
    with Living().start() as living:
        living.create_topic("t", 300)
        living.sim.crash(NODE, power_loss=False)
        living.reborn()
        begun = living.sim.now
        ready = living.world.spawn("start", living.node.start())
        living.sim.run(living.sim.until(lambda: "PLAINTEXT" in living.node.server.endpoints))
        assert not ready.done() and living.sim.now - begun >= HELD_AFTER_SECONDS
        answer = living.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        assert answer.error_code == 0 and not ready.done()
        living.sim.run(living.sim.until(ready.done))
        assert not living.failed
