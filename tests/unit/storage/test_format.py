from __future__ import annotations

from collections.abc import Generator
from pathlib import Path, PurePath
from random import Random

import pytest

from highwater.log.meta_properties import MetaProperties, read_meta_properties
from highwater.model import Endpoint, NodeId, uuid_from_text, uuid_text
from highwater.quorum.voters import VoterSet
from highwater.sim import Simulation
from highwater.sim.trace import matching
from highwater.storage.format import (
    FIRST_SNAPSHOT,
    Format,
    FormatError,
    InitialVoter,
    bootstrap_snapshot,
    format_directories,
    random_directory_id,
    voters_snapshot,
)
from highwater.storage.releases import metadata_level, release_name
from highwater.wire.records import walk
from highwater.world import Dead, Disk, Step
from highwater.world.jobs import finished
from highwater.world.real_disk import RealDisk

VOTER = InitialVoter(NodeId(1), Endpoint("127.0.0.1", 9093), uuid_from_text("JEXY6aqzQY-32P5TStzaFg"))


def wanted(
    *directories: Path, cluster_id: str = "c", node: int = 1, voters: tuple[InitialVoter, ...] = (VOTER,)
) -> Format:
    return Format(cluster_id, NodeId(node), directories, directories[0], "CONTROLLER", voters)


def run(plan: Format, **options: bool) -> list[str]:
    said: list[str] = []
    format_directories(RealDisk(), plan, now_ms=1, random=Random(1), report=said.append, **options)
    return said


def metas(*directories: Path) -> list[MetaProperties]:
    found = [read_meta_properties(RealDisk(), directory) for directory in directories]
    assert all(found)
    return [meta for meta in found if meta is not None]


def test_each_directory_gets_an_id_and_the_voter_its_own(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    run(wanted(one, two))

    first, second = metas(one, two)
    assert (first.cluster_id, first.node_id, first.directory_id) == ("c", 1, VOTER.directory_id)
    assert second.directory_id not in (None, first.directory_id)
    assert (one / "__cluster_metadata-0" / FIRST_SNAPSHOT).exists()
    assert not (two / "__cluster_metadata-0").exists()
    assert (two / "bootstrap.checkpoint").exists()


def test_a_node_outside_the_voter_set_knows_it_all_the_same(tmp_path: Path) -> None:
    said = run(wanted(tmp_path / "a", node=7))
    assert said[-1].startswith(f"Formatting dynamic metadata directory {tmp_path / 'a'} ")
    assert (tmp_path / "a/__cluster_metadata-0" / FIRST_SNAPSHOT).exists()


def test_without_voters_there_is_no_snapshot(tmp_path: Path) -> None:
    run(wanted(tmp_path / "a", voters=()))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


def test_a_formatted_directory_is_refused_or_skipped(tmp_path: Path) -> None:
    run(wanted(tmp_path / "a"))
    (before,) = metas(tmp_path / "a")
    both = wanted(tmp_path / "a", tmp_path / "b")

    with pytest.raises(FormatError, match="a is already formatted"):
        run(both)
    assert not (tmp_path / "b").exists()
    run(both, ignore_formatted=True)
    assert metas(tmp_path / "a", tmp_path / "b")[0] == before
    assert run(both, ignore_formatted=True) == ["All of the log directories are already formatted."]


@pytest.mark.parametrize(("cluster_id", "node"), [("other", 1), ("c", 2)])
def test_a_directory_of_another_node_or_cluster_is_not_formatted(tmp_path: Path, cluster_id: str, node: int) -> None:
    run(wanted(tmp_path / "a"))
    with pytest.raises(FormatError, match="meta.properties"):
        run(wanted(tmp_path / "a", cluster_id=cluster_id, node=node), ignore_formatted=True)


class FullDisk(RealDisk):
    """Has no room for meta.properties."""

    def rename(self, old: PurePath, new: PurePath) -> None:
        if new.name == "meta.properties":
            raise OSError(28, "No space left on device")
        super().rename(old, new)


def test_a_directory_that_was_not_finished_can_be_formatted_again(tmp_path: Path) -> None:
    plan = wanted(tmp_path / "a")
    with pytest.raises(OSError):
        format_directories(FullDisk(), plan, now_ms=1, random=Random(1))
    assert read_meta_properties(RealDisk(), tmp_path / "a") is None

    run(plan)
    assert metas(tmp_path / "a")


def test_a_directory_with_meta_properties_has_its_first_snapshot_after_a_power_cut() -> None:
    """A node that found the first without the second would have forgotten the voters."""
    directory = PurePath("/data/n")
    plan = Format("c", NodeId(1), (directory,), directory, "CONTROLLER", (VOTER,))

    def job(disk: Disk) -> Generator[Step, None, None]:
        format_directories(disk, plan, now_ms=1, random=Random(1))
        yield Step()

    kept = 0
    for seed in range(40):
        with Simulation(seed) as sim:
            world = sim.world("n")
            sim.storage("n").provide(PurePath("/data"))
            sim.crash_at("n", matching("rename", "*meta.properties"), phase="after")
            with pytest.raises(Dead):
                sim.run(world.perform(finished(world, job)))
            disk = sim.restart("n").disk
            if disk.stat(directory / "meta.properties") is not None:
                kept += 1
                assert disk.stat(directory / "__cluster_metadata-0" / FIRST_SNAPSHOT) is not None
    assert 0 < kept < 40


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version=0\ncluster.id=c\nnode.id=1\n",
        "version=1\ncluster.id=c\n",
        "version=1\nnode.id=1\n",
        "version=1\ncluster.id=c\nnode.id=x\n",
    ],
)
def test_a_damaged_meta_properties_is_not_treated_as_missing(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(ValueError, match="meta.properties"):
        read_meta_properties(RealDisk(), tmp_path)


def test_meta_properties_with_a_byte_that_was_not_written_are_damaged(tmp_path: Path) -> None:
    """The id of another cluster would be read out of it, and nobody would answer this node."""
    whole = bytearray(MetaProperties("cluster", NodeId(3), VOTER.directory_id).encode())
    whole[whole.index(b"cluster.id=") + 12] ^= 0x80
    (tmp_path / "meta.properties").write_bytes(whole)
    with pytest.raises(ValueError, match="bytes that are not ASCII"):
        read_meta_properties(RealDisk(), tmp_path)


def test_meta_properties_that_have_lost_any_part_are_not_those_of_another_node(tmp_path: Path) -> None:
    """Neither of another cluster, nor without the id of the directory."""
    whole = MetaProperties("cluster", NodeId(3), VOTER.directory_id).encode()
    for at in range(len(whole)):
        for left in (whole[:at], whole[:at] + bytes(len(whole) - at)):
            (tmp_path / "meta.properties").write_bytes(left)
            with pytest.raises(ValueError, match="meta.properties"):
                read_meta_properties(RealDisk(), tmp_path)


def test_meta_properties_survive_a_round_trip() -> None:
    meta = MetaProperties("a=b#c", NodeId(3), VOTER.directory_id)
    assert MetaProperties.parse(meta.encode().decode()) == meta
    assert MetaProperties.parse("#\nversion=1\ncluster.id=c\nnode.id=3\n") == MetaProperties("c", NodeId(3))


def test_snapshots_number_their_records_from_zero() -> None:
    snapshot = bootstrap_snapshot({"metadata.version": 30, "group.version": 1, "share.version": 0}, 5)
    assert [(header.base_offset, header.record_count, header.is_control) for _, _, header in walk(snapshot)] == [
        (0, 1, True),
        (1, 2, False),
        (3, 1, True),
    ]
    voters = voters_snapshot(VoterSet(), 5)
    assert [(header.base_offset, header.record_count) for _, _, header in walk(voters)] == [(0, 3), (3, 1)]


def test_voters_are_read() -> None:
    assert InitialVoter.parse("1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg") == VOTER
    assert InitialVoter.parse(" 2@[::1]:1:JEXY6aqzQY-32P5TStzaFg ").endpoint == Endpoint("::1", 1)
    for bad in (
        "",
        "1",
        "x@h:1:JEXY6aqzQY-32P5TStzaFg",
        "1@h:1",
        "1@h:1:short",
        "1@h:99999:JEXY6aqzQY-32P5TStzaFg",
        "1@:1:JEXY6aqzQY-32P5TStzaFg",
    ):
        with pytest.raises(FormatError):
            InitialVoter.parse(bad)


def test_ids_never_look_like_an_option() -> None:
    random = Random(5)
    made = [random_directory_id(random) for _ in range(500)]
    assert len(set(made)) == 500
    assert not [one for one in made if uuid_text(one).startswith("-")]
    assert {one[6] >> 4 for one in made} == {4}


@pytest.mark.parametrize(
    ("release", "level"), [("4.3", 30), ("4.3.0", 30), ("4.3-IV0", 30), ("4.0", 25), ("3.3-IV3", 7)]
)
def test_releases_have_levels(release: str, level: int) -> None:
    assert metadata_level(release) == level
    assert release_name(level).startswith(release[:3])


@pytest.mark.parametrize("kept", ["orders-0/00000000000000000000.log", "__cluster_metadata-0/00000000000000000000.log"])
def test_a_directory_with_data_that_has_lost_its_meta_properties_is_not_formatted_anew(
    tmp_path: Path, kept: str
) -> None:
    """It would get another id, and to the cluster it would be an empty disk in the place of a lost one."""
    run(wanted(tmp_path / "a"))
    (tmp_path / "a" / kept).parent.mkdir(exist_ok=True)
    (tmp_path / "a" / kept).write_bytes(b"data")
    (tmp_path / "a" / "meta.properties").unlink()
    with pytest.raises(
        FormatError, match=r"has no meta\.properties, but holds .* Restore meta\.properties from a copy"
    ):
        run(wanted(tmp_path / "a"))
    assert (tmp_path / "a" / kept).read_bytes() == b"data"
    assert not (tmp_path / "a" / "meta.properties").exists()
