"""What the directory of a cluster at rest decides about its next start: ports, voters, and what is refused."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from highwater.cluster import Cluster
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.layout import Layout
from highwater.cluster.ports import ReservedPort
from highwater.cluster.record import as_options
from highwater.cluster.waiting import waits_for
from highwater.config import ConfigError
from highwater.log.meta_properties import read_meta_properties
from highwater.model import Uuid, uuid_text
from highwater.raft_node.metadata_loader import QUORUM_STATE
from highwater.storage.recorded_voters import recorded_voters
from highwater.world.real_disk import RealDisk

METADATA = Path("data/__cluster_metadata-0")


def lay_out(directory: Path, brokers: int = 3, controllers: int = 0) -> Layout:
    """One start, and its end."""
    layout = Layout(directory, brokers, controllers, None, {}, shape=as_options)
    layout.release()
    return layout


def addresses(layout: Layout) -> list[str]:
    return [layout.members[0].properties["controller.quorum.bootstrap.servers"]]


def let_vote(directory: Path) -> None:
    """As if every voter had run."""
    for log in directory.glob(f"node-*/{METADATA}"):
        (log / QUORUM_STATE).write_text("{}")


def directory_id(directory: Path, node: int) -> Uuid | None:
    meta = read_meta_properties(RealDisk(), directory / f"node-{node}" / "data")
    return None if meta is None else meta.directory_id


def files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def refusal(directory: Path, brokers: int, controllers: int = 0) -> str:
    """What is said, after a look that nothing was changed."""
    before = files(directory)
    with pytest.raises(ClusterFailed) as refused:
        lay_out(directory, brokers, controllers)
    assert files(directory) == before
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("controllers", [0, 1])
def test_voters_keep_their_ports_though_a_power_cut_emptied_their_settings(tmp_path: Path, controllers: int) -> None:
    before = lay_out(tmp_path, controllers=controllers)
    for settings in tmp_path.glob("node-*/server.properties"):
        settings.write_bytes(b"")
    assert addresses(lay_out(tmp_path, controllers=controllers)) == addresses(before)


def test_a_taken_port_of_a_voter_is_named_with_the_process_that_has_it(tmp_path: Path) -> None:
    layout = lay_out(tmp_path)
    port = layout.members[1].endpoints[1].port
    with socket.create_server(("127.0.0.1", port)):
        complaint = refusal(tmp_path, 3)
    assert complaint.startswith(
        f"127.0.0.1:{port}, where the quorum's log has voter 2, is taken by pid {os.getpid()} ("
    )


def test_two_clusters_never_draw_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ReservedPort.drawn()
    monkeypatch.setattr("highwater.cluster.ports.OWN_PORTS", range(first.number, first.number + 3))
    others = [ReservedPort.drawn(), ReservedPort.drawn()]
    assert {first.number, *(each.number for each in others)} == set(range(first.number, first.number + 3))
    with socket.create_server(("127.0.0.1", first.number)):  # a node binds beside its reservation
        pass
    for each in (first, *others):
        each.release()


def test_a_first_start_that_a_power_cut_interrupted_is_completed_with_the_same_voters(tmp_path: Path) -> None:
    first = lay_out(tmp_path)
    keys = recorded_voters(RealDisk(), tmp_path / "node-1/data")
    assert keys is not None
    for node in (2, 3):
        shutil.rmtree(tmp_path / f"node-{node}")
    again = lay_out(tmp_path)
    assert (again.cluster_id, addresses(again)) == (first.cluster_id, addresses(first))
    assert [directory_id(tmp_path, node) for node in (1, 2, 3)] == [key.directory_id for key in keys.voters.keys]


def test_a_directory_cannot_grow_to_more_voters(tmp_path: Path) -> None:
    lay_out(tmp_path, 1)
    complaint = refusal(tmp_path, 3)
    assert (
        f"{tmp_path} was formatted for the voter 1; this start would have the voters 1, 2, 3, and a quorum keeps"
        in complaint
    )
    assert complaint.endswith("start it with --brokers 1, or choose another directory")


@pytest.mark.parametrize(("brokers", "fewer"), [(1, "the voter 1"), (2, "the voters 1, 2")])
def test_a_directory_cannot_shrink(tmp_path: Path, brokers: int, fewer: str) -> None:
    """Two of three voters would be a quorum, but what it was formatted with stays: that is the reason to name."""
    lay_out(tmp_path)
    assert refusal(tmp_path, brokers) == (
        f"{tmp_path} was formatted for the voters 1, 2, 3; this start would have {fewer}, and a quorum keeps the "
        "voters that it was formatted with: start it with --brokers 3, or choose another directory"
    )


def test_an_embedded_cluster_names_the_arguments_that_fit_not_the_options_of_up(tmp_path: Path) -> None:
    lay_out(tmp_path, 2, controllers=1)
    with pytest.raises(ClusterFailed, match="start it with brokers=2, controllers=1, or choose another directory"):
        Cluster(brokers=2, data_dir=tmp_path).open()


def test_a_directory_keeps_its_kind_of_quorum(tmp_path: Path) -> None:
    lay_out(tmp_path, 2, controllers=1)
    assert "start it with --brokers 2 --controllers 1" in refusal(tmp_path, 2)


def test_a_broker_is_neither_added_to_a_directory_that_has_run_nor_left_out(tmp_path: Path) -> None:
    """Partitions may be put on a fourth broker, and the directory could never be started with three again."""
    lay_out(tmp_path, 4)
    let_vote(tmp_path)
    complaint = refusal(tmp_path, 6)
    assert f"{tmp_path} holds the nodes 1, 2, 3, 4, and the nodes 5, 6 would join it for good" in complaint
    assert complaint.endswith("without them again. Start it with --brokers 4, or choose another directory")
    complaint = refusal(tmp_path, 3)
    assert "also holds node 4" in complaint and "--brokers 4" in complaint


def test_a_broker_that_lost_its_directory_comes_back(tmp_path: Path) -> None:
    """It was there before: the list of the last start, or what is left of its folder, shows that."""
    lay_out(tmp_path, 4)
    let_vote(tmp_path)
    shutil.rmtree(tmp_path / "node-4/data")
    lay_out(tmp_path, 4)
    assert directory_id(tmp_path, 4) is not None
    shutil.rmtree(tmp_path / "node-4")
    assert "node 4 would join it" in refusal(tmp_path, 4)
    (tmp_path / "nodes.json").write_text('{"nodes": [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]}')
    lay_out(tmp_path, 4)
    assert directory_id(tmp_path, 4) is not None


def test_a_first_start_of_several_brokers_that_was_interrupted_is_completed(tmp_path: Path) -> None:
    lay_out(tmp_path, 5)
    for node in (4, 5):
        shutil.rmtree(tmp_path / f"node-{node}")
    lay_out(tmp_path, 5)
    assert directory_id(tmp_path, 5) is not None


def test_a_single_broker_may_advertise_another_address(tmp_path: Path) -> None:
    complaint = {"advertised.listeners": "PLAINTEXT://example:9092"}
    layout = Layout(tmp_path, 1, 0, None, complaint)
    layout.release()
    assert layout.members[0].properties["advertised.listeners"] == "PLAINTEXT://example:9092"


def test_a_misspelt_setting_is_refused_with_the_one_that_may_be_meant(tmp_path: Path) -> None:
    """Else a test of what it sets would be green for another reason."""
    for name, complaint in {
        "min.insync.replica": "min.insync.replica is no setting of a node: did you mean min.insync.replicas?",
        "colour": "colour is no setting of a node",
    }.items():
        with pytest.raises(ConfigError) as refused:
            Cluster(brokers=1, config={name: 2}, data_dir=tmp_path / "data").open()
        assert str(refused.value) == complaint
        assert files(tmp_path) == {}


def test_a_voter_that_lost_its_directory_comes_back_without_its_vote(tmp_path: Path) -> None:
    """With its vote it could deny what it has promised, and with another lost one elect an empty log."""
    lay_out(tmp_path)
    let_vote(tmp_path)
    shutil.rmtree(tmp_path / "node-2")
    lay_out(tmp_path)
    one, two = (recorded_voters(RealDisk(), tmp_path / f"node-{node}/data") for node in (1, 2))
    assert one is not None and two is not None and one.voters == two.voters
    assert directory_id(tmp_path, 2) not in [key.directory_id for key in two.voters.keys]


def test_a_majority_of_lost_voters_is_not_replaced(tmp_path: Path) -> None:
    lay_out(tmp_path)
    let_vote(tmp_path)
    for node in (2, 3):
        shutil.rmtree(tmp_path / f"node-{node}")
    assert "has lost the directories of the nodes 2, 3" in refusal(tmp_path, 3)


def test_a_voter_that_lost_its_directory_counts_as_lost_at_every_later_start(tmp_path: Path) -> None:
    """It has a directory again, which the quorum does not count: with another one lost there is no majority."""
    assert lay_out(tmp_path).lost_voters_line is None
    let_vote(tmp_path)
    shutil.rmtree(tmp_path / "node-2")
    for _ in range(2):
        complaint = lay_out(tmp_path).lost_voters_line
        assert complaint is not None and complaint.startswith(
            "node 2 votes no more: its directory was lost and formatted anew"
        )
        assert "Of the voters 1,2,3 1,3 are left and 2 are needed, so none of them may fail" in complaint
    shutil.rmtree(tmp_path / "node-3")
    assert "has lost the directories of the nodes 2, 3" in refusal(tmp_path, 3)


def test_a_new_quorum_does_not_answer_for_an_old_cluster(tmp_path: Path) -> None:
    cluster_id = lay_out(tmp_path, 1, controllers=1).cluster_id
    shutil.rmtree(tmp_path / "node-101")
    assert f"holds node 1 of cluster {cluster_id}, but none of its voters" in refusal(tmp_path, 1, 1)


def test_directories_that_were_not_formatted_together_do_not_run_together(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    lay_out(ours)
    lay_out(theirs)
    shutil.rmtree(ours / "node-3")
    shutil.copytree(theirs / "node-3", ours / "node-3")
    assert "directories of different clusters cannot run together" in refusal(ours, 3)
    meta = ours / "node-3/data/meta.properties"
    known = read_meta_properties(RealDisk(), ours / "node-1/data")
    assert known is not None
    meta.write_text(
        f"version=1\nnode.id=3\ncluster.id={known.cluster_id}\ndirectory.id={uuid_text(known.directory_id or Uuid())}\n"
    )
    assert "would be two quorums of one cluster" in refusal(ours, 3)


def test_the_report_names_which_node_waits_for_which_address(tmp_path: Path) -> None:
    layout = lay_out(tmp_path, 2)
    one, two = (member.endpoints[1] for member in layout.members)
    assert waits_for(layout.members) == [
        f"node 1 waits for voter 2: cannot connect to {two}: Connection refused",
        f"node 2 waits for voter 1: cannot connect to {one}: Connection refused",
    ]
