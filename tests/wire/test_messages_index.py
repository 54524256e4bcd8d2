"""Finding messages by number, one module at a time."""

from __future__ import annotations

import subprocess
import sys

from highwater.wire.messages import index
from highwater.wire.messages.index import load


def test_the_tables_lead_to_classes_of_that_number() -> None:
    for table in (index.REQUESTS, index.RESPONSES, index.METADATA_RECORDS, index.GROUP_KEYS, index.GROUP_VALUES):
        for key, name in table.items():
            assert (load(name).API_KEY, load(name).__name__) == (key, name)


def test_a_request_and_its_response_have_the_same_versions() -> None:
    assert index.REQUESTS.keys() == index.RESPONSES.keys()
    for key in index.REQUESTS:
        assert load(index.REQUESTS[key]).VERSIONS == load(index.RESPONSES[key]).VERSIONS


def test_a_version_that_kafka_calls_unstable_is_not_offered() -> None:
    assert load("InitProducerIdRequest").VERSIONS == (0, 5)


def test_importing_one_message_imports_no_other() -> None:
    program = (
        "import sys, highwater.wire.messages.index as index; index.load('FetchRequest');"
        "print(*sorted(name for name in sys.modules if name.startswith('highwater.wire.messages.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.split() == ["highwater.wire.messages.fetch_request", "highwater.wire.messages.index"]
