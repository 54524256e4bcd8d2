"""The largest and the smallest number that a setting may have: a node lives with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from highwater.config import SETTINGS, TOPIC_SETTINGS, ConfigError, Setting, TopicSetting
from highwater.config.setting import Update
from highwater.errors import Code
from highwater.wire import records
from tests.unit.broker.living import Living
from tests.unit.broker.reconfiguring import LARGE, TOPIC, alter, log_of
from tests.unit.broker.test_compaction import COMPACT
from tests.unit.broker.test_divergence import produce

pytestmark = pytest.mark.slow

NUMBERS = {
    "INT": ["2147483647", "-2147483648", "-1", "0", "1"],
    "LONG": ["9223372036854775807", "-9223372036854775808", "-1", "0", "1"],
    "DOUBLE": ["1e308", "-1e308", "0", "5e-324"],
}
REFUSED_BESIDE_OTHERS = [
    ("log.cleaner.dedupe.buffer.size", "-9223372036854775808"),
    ("log.cleaner.dedupe.buffer.size", "0"),
    ("log.cleaner.threads", "2147483647"),
    ("min.compaction.lag.ms", "9223372036854775807"),
]
"""They do not go together with the other settings of the node."""


def extremes() -> Iterator[tuple[str, str]]:
    """What each number of a topic, and of the cleaner, can be at most and at least."""
    found: list[Setting[Any] | TopicSetting[Any]] = [*TOPIC_SETTINGS.values()]
    found += [
        each
        for each in SETTINGS.values()
        if each.name.startswith("log.cleaner.") and each.update is not Update.READ_ONLY
    ]
    for setting in found:
        allowed = [text for text in NUMBERS.get(setting.kind.name, []) if is_allowed(setting, text)]
        for text in {min(allowed, key=float), max(allowed, key=float)} | {"0"} & {*allowed} if allowed else ():
            if (setting.name, text) not in REFUSED_BESIDE_OTHERS:
                yield setting.name, text


def is_allowed(setting: Setting[Any] | TopicSetting[Any], text: str) -> bool:
    try:
        setting.parse(text)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(("name", "value"), sorted(extremes()))
def test_a_node_writes_compacts_and_starts_again_under_an_extreme_setting(name: str, value: str) -> None:
    with Living(**{**COMPACT, "log_cleanup_policy": "compact,delete"}).start() as living:
        living.create_topic(TOPIC)
        alter(living, name, value)
        now = living.world.clock.wall_ms()
        for key in (b"gone", b"a", b"b", b"a", b"b"):
            produced = produce(living, records.build([(now, key, None if key == b"gone" else bytes(LARGE), ())]))
            assert produced.error_code in (
                Code.NONE, Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE, Code.INVALID_TIMESTAMP
            )  # fmt: skip
        log_of(living).roll()
        living.sim.advance(40)
        assert not living.node.broker.cleaner.account.setbacks
        living.stop()
        living.reborn().start()
        assert not living.failed
