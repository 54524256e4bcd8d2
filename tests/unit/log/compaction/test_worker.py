"""Where there is much to clean a process does it: it is one, it may be killed, and it does not outlive its node."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from highwater.log.compaction import cleaner as cleaner_module
from highwater.log.compaction.cleaner import Cleaner
from highwater.wire import records
from tests.unit.log.bench import NODE, START_MS, TP, Bench, append, on_real_disk, until
from tests.unit.log.compaction.test_real_files import values

pytestmark = pytest.mark.slow

SLOW = NODE.with_dynamic({"log.cleaner.io.max.bytes.per.second": "20000", "log.cleaner.backoff.ms": "200"}, {})
FAST = NODE.with_dynamic({"log.cleaner.backoff.ms": "200"}, {})
RECORDS = 400


def workers() -> set[int]:
    """Processes of ours that do a job. Others, and threads, come and go meanwhile."""
    found: set[int] = set()
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update(pid for pid in map(int, children.read_text().split()) if does_a_job(pid))
    return found


def does_a_job(pid: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def fill(bench: Bench) -> dict[bytes, bytes]:
    for number in range(RECORDS):
        append(bench.log, records.build([(START_MS, b"key-%d" % (number % 4), b"%d" % number * 20, ())]))
    bench.log.move_high_watermark(bench.log.log_end)
    return {b"key-%d" % (number % 4): b"%d" % number * 20 for number in range(RECORDS)}


def contents(bench: Bench) -> dict[str, bytes]:
    directory = Path(bench.partition_directory)
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


def test_a_worker_that_is_killed_leaves_the_log_as_it_was_and_cleaning_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner_module, "PROCESS_ABOVE_BYTES", 0)
    config = SLOW

    async def play(bench: Bench) -> None:
        nonlocal config
        await bench.create()
        expected = fill(bench)
        before = contents(bench)
        cleaner = Cleaner(bench.world, bench.store, lambda: config)
        account = cleaner.account
        others = workers()
        cleaner.start()
        await until(lambda: TP in account.under_way and account.under_way[TP].done.mapped > 0)
        (worker,) = workers() - others
        os.kill(worker, signal.SIGKILL)
        await until(lambda: TP in account.setbacks)
        setback = account.setbacks[TP]
        assert f"process {worker}, which did the work, ended with code -9" in setback.reason
        assert not setback.final and bench.log.offline is None
        assert contents(bench) == before
        assert await values(bench) == expected
        await until(lambda: TP in account.under_way)
        assert account.failures == 1 and account.setbacks, "it stands until it is made up for"
        config = FAST
        cleaner.reconfigured()
        await until(lambda: account.cleanings == 1 and not account.under_way)
        assert not account.setbacks
        assert await values(bench) == expected
        assert sum(map(len, contents(bench).values())) < sum(map(len, before.values())) / 2
        cleaner.stop()

    on_real_disk(tmp_path, play, cleanup_policy=("compact",), segment_bytes=5000, min_cleanable_dirty_ratio=0.0)


def test_a_cleaner_that_stops_takes_its_worker_along_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner_module, "PROCESS_ABOVE_BYTES", 0)

    async def play(bench: Bench) -> None:
        await bench.create()
        fill(bench)
        cleaner = Cleaner(bench.world, bench.store, lambda: SLOW)
        others = workers()
        cleaner.start()
        await until(lambda: any(Path(bench.partition_directory).glob("*.cleaned")))
        (worker,) = workers() - others
        await cleaner.close()
        assert not cleaner.account.under_way and not cleaner.account.setbacks
        await until(lambda: not Path(f"/proc/{worker}").exists())
        assert not any(Path(bench.partition_directory).glob("*.cleaned"))

    on_real_disk(tmp_path, play, cleanup_policy=("compact",), segment_bytes=5000, min_cleanable_dirty_ratio=0.0)
