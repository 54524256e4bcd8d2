"""Leaders whose disk takes no more writes."""

from __future__ import annotations

import errno

import pytest

from tests.scenarios.stage import ORDERS, Stage

FILES = f"/data/{ORDERS}/*"


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS], ids=["EIO", "read-only"])
@pytest.mark.parametrize("operation", ["append", "create"])
def test_a_leader_whose_disk_takes_no_more_writes_gives_the_lead_away(operation: str, code: int) -> None:
    """A file system with errors is often mounted read-only: the leader could be read, but never written."""
    with Stage(3, expects_failures=True) as stage:
        stage.create(replicas=(2, 3), segment_ms=1000)
        stage.send(b"v0")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.storage("n2").fail(operation, FILES, code, times=None)  # type: ignore[arg-type]
        if operation == "create":
            stage.pass_time(2)  # the next append begins a segment
        stage.send(b"v1")
        assert stage.leader() == "n3"
        assert stage.log("n2").offline is not None
        assert stage.values("n3") == [b"v0", b"v1"]


def test_a_leader_whose_disk_is_full_for_a_while_leads_on() -> None:
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"v0")
        fault = stage.storage("n2").fail("append", f"{FILES}.log", errno.ENOSPC, times=3)
        stage.send(b"v1")
        assert fault.struck
        assert stage.leader() == "n2"
        assert stage.log("n2").offline is None
