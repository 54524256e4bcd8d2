"""The lab: every experiment on a real cluster, the same facts in both languages, and recordings that replay."""

from __future__ import annotations

import io
import json
import re
import string
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from highwater.cli import main
from highwater.cluster import Cluster
from highwater.lab.bench import Bench, NotSeen
from highwater.lab.catalogue import EXPERIMENTS
from highwater.lab.drawing import drawn
from highwater.lab.frame import LANGUAGES, Frame, Read, Recording, Words, recorded
from highwater.lab.history import leader_of, parts_at
from highwater.lab.strip import Scale

BESIDE_A_STRIP = 8
"""Columns of borders and paddings."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Bench.new_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def run(cluster: Cluster) -> Callable[[str], Recording]:
    """Each experiment runs once; its recording is looked at by several tests."""
    done: dict[str, Recording] = {}

    def run(name: str) -> Recording:
        if name not in done:
            done[name] = EXPERIMENTS[name].run(cluster)
        return done[name]

    return run


def as_text(frame: Frame, number: int, count: int, language: str, width: int) -> str:
    """Without colours, as a pipe gets it."""
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(drawn(frame, number, count, language, width))
    return file.getvalue()


def titled(recording: Recording, english: str) -> Frame:
    [found] = [frame for frame in recording.frames if frame.title.en == english]
    return found


def ends(frame: Frame) -> dict[int, tuple[int, int]]:
    """(high watermark, log end) of each replica that was seen."""
    return {lane.node: (lane.high_watermark, lane.log_end) for lane in frame.lanes if lane.label is None}


def places(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_both_languages_tell_the_same_numbers_and_nothing_is_wider_than_the_page(
    run: Callable[[str], Recording], name: str
) -> None:
    recording = run(name)
    assert {frame.kind for frame in recording.frames} == {"step", "lost", "mistake"}
    for frame in recording.frames:
        assert all(lane.epoch >= 0 for lane in frame.lanes if lane.label is None), "a lane that nobody has seen"
        for words in (frame.title, frame.text):
            assert places(words.en) == places(words.ko) <= set(frame.facts), words.en
        for width in (100, 60):
            for language in LANGUAGES:
                text = as_text(frame, 1, len(recording.frames), language, width)
                assert {columns(line) for line in text.splitlines()} == {width}
                assert frame.title.told(language, frame.facts) in text.splitlines()[0], "a title is cut off"
                scale = Scale(frame.lanes, width - BESIDE_A_STRIP)
                for lane in frame.lanes:
                    assert scale.strip(lane).plain in text, "a strip is cut off"
                    assert str(lane.log_end) in text and str(lane.high_watermark) in text
                for heading, content in frame.files:
                    shown = heading.told(language, {}) if isinstance(heading, Words) else heading
                    assert all(line in text for line in (shown, *content.splitlines())), "a line is broken"
    assert any("가" <= letter <= "힣" for letter in recording.title.ko)


def test_what_texts_have_wrong_is_named_with_what_is_so(run: Callable[[str], Recording]) -> None:
    named = {
        "segments-and-compaction": ("retention.ms is 604800000 ms", "604800000ms"),
        "leader-killed": ("not from ZooKeeper", "주키퍼가 아니라"),
        "racks-and-followers": ("consumers read from leaders only", "리더에서만 읽고"),
    }
    for name, words in named.items():
        [wrong] = [frame for frame in run(name).frames if frame.kind == "mistake"]
        for language, word in zip(LANGUAGES, words, strict=True):
            assert word in wrong.text.told(language, wrong.facts), name


PARTICLE = re.compile(r"\{(\w+)\}(을|를|은|는|이|가|과|와|으로|로|이라고|라고)(?=[ ,.]|$)")
AFTER_A_VOWEL = ("를", "는", "가", "와", "로", "라고")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_korean_particles_fit_the_numbers_before_them(run: Callable[[str], Recording], name: str) -> None:
    """A digit is read aloud: 2, 4, 5 and 9 end in a vowel, and before 로 the ㄹ of 1, 7 and 8 counts as one."""
    for frame in run(name).frames:
        for words in (frame.title, frame.text):
            for place, particle in PARTICLE.findall(words.ko):
                digit = str(frame.facts[place])[-1:]
                vowels = "2459178" if particle in ("로", "으로") else "2459"
                assert (digit in vowels) == (particle in AFTER_A_VOWEL), f"{digit}{particle}: {words.ko}"


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_recording_replays_to_the_same_frames(run: Callable[[str], Recording], name: str, tmp_path: Path) -> None:
    recording = run(name)
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(recording.lines()) + "\n")
    assert recorded(file.read_text()) == recording
    told = CliRunner().invoke(main, ["lab", "replay", str(file), "--lang", "ko"], env={"COLUMNS": "100"})
    assert told.exit_code == 0
    pages = [as_text(each, at, len(recording.frames), "ko", 100) for at, each in enumerate(recording.frames, 1)]
    assert told.output == "".join(pages)


def test_a_write_is_acknowledged_by_the_next_fetches_and_the_high_watermark_travels_back(
    run: Callable[[str], Recording],
) -> None:
    recording = run("write-and-acknowledgement")
    assert ends(titled(recording, "the leader writes")) == {1: (5, 6), 2: (5, 5), 3: (5, 5)}
    known = titled(recording, "the followers have it, the leader is not aware")
    assert ends(known) == {1: (5, 6), 2: (5, 6), 3: (5, 6)}
    assert titled(recording, "the next fetch is the acknowledgement").facts == {"offset": 5, "end": 6}
    back = titled(recording, "the high watermark travels back")
    assert ends(back) == {1: (6, 6), 2: (6, 6), 3: (6, 6)}
    assert {fetch.follower for fetch in back.fetches if fetch.offset == 6 and fetch.high_watermark == 6} == {2, 3}


def test_one_replica_is_offline_with_its_broker_and_three_are_not(run: Callable[[str], Recording]) -> None:
    recording = run("replication-factor")
    [alone] = titled(recording, "node 2 dies: the first topic is offline").lanes
    assert alone.state == "down" and not alone.is_leader
    three = titled(recording, "the second topic does not mind")
    assert three.facts["epoch"] == 1 and three.facts["leader"] in (1, 3)
    assert titled(recording, "node 2 returns").facts["count"] == 4


def test_the_slowest_member_holds_the_high_watermark_until_its_time_is_over(run: Callable[[str], Recording]) -> None:
    recording = run("slowest-replica")
    held = titled(recording, "the slowest member holds the high watermark")
    assert ends(held) == {1: (3, 7), 2: (3, 7), 3: (3, 3)} and all(lane.in_isr for lane in held.lanes)
    [computed] = [lane for lane in held.lanes if lane.label is not None]
    assert computed.label is not None and computed.label.en == "computed: this rule no longer exists"
    assert computed.high_watermark == 7
    left = titled(recording, "it leaves the ISR, and the high watermark moves")
    assert [lane.in_isr for lane in left.lanes] == [True, True, False] and ends(left)[1] == (7, 7)
    assert all(lane.in_isr for lane in titled(recording, "it catches up and returns").lanes)


def test_a_burst_puts_nobody_out_and_would_have_by_count(run: Callable[[str], Recording]) -> None:
    recording = run("counting-messages")
    assert titled(recording, "a burst").facts["lag"] == 500
    compared = titled(recording, "two rules, one trace")
    assert all(lane.in_isr for lane in compared.lanes)
    [(heading, rows)] = compared.files
    assert isinstance(heading, Words) and heading.en.endswith("computed: this rule no longer exists")
    assert rows.count("> 100: out") == 1


def test_each_choice_of_unclean_election_has_its_price(run: Callable[[str], Recording]) -> None:
    recording = run("acks-and-outage")
    died = titled(recording, "two brokers die")
    assert died.facts == {"error": "NOT_ENOUGH_REPLICAS", "risky": 3, "hw": 3}
    off = titled(recording, "unclean election off: no leader")
    assert not any(lane.is_leader for lane in off.lanes)
    on = titled(recording, "unclean election on: a leader lacks a record")
    assert on.facts["leader"] in (2, 3)
    returned = titled(recording, "node 1 returns")
    assert {lane.log_end for lane in returned.lanes} == {2} and len({lane.epochs for lane in returned.lanes}) == 1


def test_a_record_that_nobody_acknowledged_becomes_visible_with_the_new_leader(run: Callable[[str], Recording]) -> None:
    recording = run("leader-killed")
    assert ends(titled(recording, "everybody has the record, and nobody knows")) == {1: (3, 4), 2: (3, 4), 3: (3, 4)}
    killed = titled(recording, "the leader dies")
    assert killed.facts["epoch"] == 1 and killed.facts["start"] == 4
    leader = next(lane for lane in killed.lanes if lane.is_leader)
    assert leader.high_watermark == 4 and leader.epochs == ((0, 0), (1, 4))
    found = titled(recording, "clients and the old leader find the new one")
    assert found.facts == {"before": 3, "old": 1, "leader": leader.node, "offset": 4}
    assert all(lane.in_isr for lane in found.lanes)


def test_a_new_leader_refuses_to_tell_an_end_that_is_too_low(run: Callable[[str], Recording]) -> None:
    recording = run("watermark-too-low")
    low = titled(recording, "the new leader's high watermark is too low")
    assert low.facts["error"] == "OFFSET_NOT_AVAILABLE" and low.facts["low"] == 3
    leader = int(low.facts["leader"])
    assert low.reads == (Read(leader, True, 3, 0, 3),), "the Fetch at 3 gets no record, though the log has one"
    assert ends(low)[leader] == (3, 4)
    assert titled(recording, "one fetch later").facts["end"] == "4"


def test_the_old_leader_cuts_off_exactly_what_only_it_had(run: Callable[[str], Recording]) -> None:
    recording = run("divergence")
    assert ends(titled(recording, "records that only the leader has"))[1] == (3, 5)
    parted = titled(recording, "two histories")
    assert {lane.node: parts_at(lane, leader_of(parted.lanes)) for lane in parted.lanes} == {1: 3, 2: None, 3: None}
    assert "{3}{4}" in as_text(parted, 1, 1, "en", 60)
    returned = titled(recording, "the old leader returns")
    assert {lane.log_end for lane in returned.lanes} == {6} and {lane.epochs for lane in returned.lanes} == {
        ((0, 0), (1, 3))
    }
    [lost] = [frame for frame in recording.frames if frame.kind == "lost"]
    assert lost.facts == {"count": 2, "names": "stray0, stray1"}


def test_the_old_rule_loses_exactly_the_record_that_the_text_says(run: Callable[[str], Recording]) -> None:
    recording = run("watermark-alone")
    assert ends(titled(recording, "the follower is one fetch behind")) == {1: (2, 2), 2: (1, 2)}
    returned = titled(recording, "the old leader returns")
    assert ends(returned) == {1: (2, 2), 2: (2, 2)} and returned.facts["count"] == 2
    assert returned.facts["left"] == 1
    for title in ("the follower restarts", "the leader dies before the follower has fetched", "the old leader returns"):
        [simulated] = [lane for lane in titled(recording, title).lanes if lane.label is not None]
        assert simulated.label is not None and simulated.label.en.startswith("simulated: ")
        assert simulated.log_end == 1
    [lost] = [frame for frame in recording.frames if frame.kind == "lost"]
    assert lost.facts == {"record": "message2"}


def test_leadership_comes_back_with_a_preferred_election(run: Callable[[str], Recording]) -> None:
    recording = run("preferred-leader")
    moved = titled(recording, "after a restart one node leads both")
    assert moved.facts == {"first": 1, "leader": 2, "epoch": 1} and all(lane.in_isr for lane in moved.lanes)
    assert titled(recording, "a preferred election").facts == {"first": 1, "epoch": 2}


def test_leadership_comes_back_by_itself_where_the_controller_looks_for_it(run: Callable[[str], Recording]) -> None:
    frame = titled(run("preferred-leader"), "and by itself")
    assert frame.facts["after"] == 1 + int(frame.facts["before"]) == 2
    [leader] = [lane for lane in frame.lanes if lane.is_leader]
    assert leader.node == 1 and all(lane.in_isr for lane in frame.lanes)


def test_replicas_are_spread_over_racks_and_a_consumer_is_sent_to_its_own(run: Callable[[str], Recording]) -> None:
    recording = run("racks-and-followers")
    placed = titled(recording, "a replica in every rack")
    assert placed.facts == {"partitions": 4, "factor": 2, "racks": 2}
    [(_, rows)] = placed.files
    assert {frozenset(line.split()[-2:]) for line in rows.splitlines()} <= {
        frozenset({"a,", "b"}),
        frozenset({"b,", "a"}),
    }
    sent = titled(recording, "the leader sends a consumer to its rack")
    assert sent.reads == (Read(1, True, 0, 0, 4, preferred=3), Read(3, False, 0, 4, 4))


def test_a_follower_gives_a_consumer_only_what_it_knows_to_be_committed(run: Callable[[str], Recording]) -> None:
    recording = run("racks-and-followers")
    own = titled(recording, "a follower serves up to its own high watermark")
    assert ends(own)[1] == (5, 5) and ends(own)[3] == (4, 5)
    assert own.reads == (Read(1, True, 4, 1, 5), Read(3, False, 4, 0, 4))
    assert titled(recording, "one fetch of the follower later").reads == (Read(3, False, 4, 1, 5),)


def test_a_consumer_goes_back_to_the_leader_and_reads_each_record_once(run: Callable[[str], Recording]) -> None:
    recording = run("racks-and-followers")
    lags = titled(recording, "the follower lags and leaves the ISR")
    assert [lane.in_isr for lane in lags.lanes] == [True, True, False]
    assert lags.reads == (Read(3, False, 4, 0, -1, error="NOT_LEADER_OR_FOLLOWER"), Read(1, True, 4, 2, 6))
    returned = titled(recording, "it returns, and so does the consumer")
    assert all(lane.in_isr for lane in returned.lanes)
    assert [(each.node, each.preferred, each.records) for each in returned.reads] == [(1, 3, 0), (3, -1, 1)]
    dead = titled(recording, "the follower dies")
    assert dead.lanes[2].state == "down" and dead.reads[0].error == "Disconnected"
    assert dead.reads[1] == Read(1, True, 7, 1, 8)
    [lost] = [frame for frame in recording.frames if frame.kind == "lost"]
    assert lost.facts == {"count": 8, "last": 7}


def test_the_checkpoint_files_say_what_the_lanes_show(run: Callable[[str], Recording]) -> None:
    recording = run("checkpoint-files")
    frame = titled(recording, "what a follower keeps on disk")
    (_, watermark), (_, epochs) = frame.files
    assert watermark.split()[1:] == ["0", "4"] and epochs.splitlines() == ["0", "2", "0 0", "1 3"]
    (_, described), (_, dumped) = titled(recording, "the same, by Kafka's tools").files
    assert described.startswith("Partition: 0  Leader: ") and "Replicas: 1,2,3" in described
    assert dumped.splitlines() == [
        f"baseOffset: {offset}  count: 1  partitionLeaderEpoch: {0 if offset < 3 else 1}" for offset in range(4)
    ]


def test_a_partition_has_five_places_and_a_group_its_own(run: Callable[[str], Recording]) -> None:
    recording = run("keys-and-offsets")
    [(_, table)] = titled(recording, "a key has its partition").files
    rows = [line.split() for line in table.splitlines()]
    assert {key: partition for key, partition, _ in rows} == {"pear": "0", "apple": "1", "peach": "2"}
    without = titled(recording, "without a key: in turn, or batch by batch")
    assert without.facts == {"count": 6, "partitions": 3, "each": 2, "requests": 6}
    [(_, spread)] = without.files
    assert [line.split() for line in spread.splitlines()] == [["0", "2", "0"], ["1", "2", "6"], ["2", "2", "0"]]
    places = titled(recording, "five places in one partition").facts
    assert places == {"more": 2, "position": 6, "committed": 3, "hw": 6, "end": 8, "lag": 3}
    assert titled(recording, "two groups do not know each other").facts == {"committed": 3, "other": 5, "again": 3}


def test_retention_deletes_segments_and_compaction_all_but_the_last_of_each_key(
    run: Callable[[str], Recording],
) -> None:
    recording = run("segments-and-compaction")
    [(_, files)] = titled(recording, "a log is a row of segments").files
    assert [int(line.partition(".")[0]) for line in files.splitlines()] == [0, 2, 4]
    deleted = titled(recording, "retention deletes whole segments")
    assert {lane.log_start for lane in deleted.lanes} == {2}
    _, (_, kept) = titled(recording, "compaction keeps the last record of each key").files
    assert kept.splitlines() == ["1  lee  v1", "3  park  v1", "4  kim  v3"]
    assert titled(recording, "a record without a key is refused").facts == {"error": "INVALID_RECORD"}
    settings = titled(recording, "five settings of compaction")
    assert settings.facts == {"before": 5, "kept": 5, "lag": 3_600_000, "after": 3}
    [(_, values)] = settings.files
    assert values.splitlines() == [
        "cleanup.policy=compact",
        "min.compaction.lag.ms=0",
        f"max.compaction.lag.ms={2**63 - 1}",
        "min.cleanable.dirty.ratio=0.0",
        "delete.retention.ms=86400000",
    ]
    [lost] = [frame for frame in recording.frames if frame.kind == "lost"]
    [wrong] = [frame for frame in recording.frames if frame.kind == "mistake"]
    assert lost.facts == {"deleted": 2, "replaced": 2} and wrong.facts == {"ms": str(7 * 24 * 3600 * 1000)}


def test_writes_go_on_while_the_controller_fails_over(run: Callable[[str], Recording]) -> None:
    recording = run("controller-failover")
    dead = titled(recording, "it dies, and writes go on")
    assert dead.facts["offset"] == 1 and {dead.facts["old"], dead.facts["new"]} <= {101, 102, 103}
    assert dead.facts["old"] != dead.facts["new"]
    assert titled(recording, "the new one decides").facts["epoch"] == 1


def test_list_begins_each_line_with_a_name() -> None:
    for language in LANGUAGES:
        told = CliRunner().invoke(main, ["lab", "list", "--lang", language])
        assert [line.split()[0] for line in told.output.splitlines()] == list(EXPERIMENTS)


def test_run_exits_with_zero_and_keeps_its_recording(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    told = CliRunner().invoke(
        main, ["lab", "run", "counting-messages", "--lang", "ko", "--record", str(file)], env={"COLUMNS": "60"}
    )
    assert told.exit_code == 0, told.output
    assert "갑자기 몰린 쓰기" in told.output and json.loads(file.read_text().splitlines()[0])["version"] == 1


def test_an_attempt_that_missed_its_moment_is_made_again_on_healed_links(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    monkeypatch.setattr("highwater.lab.bench.ATTEMPTS", 2)
    here = Bench(cluster, lambda frame: None)
    tries: list[str] = []

    def attempt(last: int) -> list[str]:
        topic = here.topic("lab-again")
        here.send(topic, ["m0"], acks=1)
        here.until(topic, lambda lanes: lanes[2].log_end == 1, "the cut of the attempt before is healed")
        cluster.cut(1, 2)
        tries.append(topic)
        here.check(len(tries) == last, "the fetch had ended before")
        return tries

    assert len(here.caught(lambda: attempt(2))) == 2
    cluster.heal()
    with pytest.raises(NotSeen, match="the fetch had ended before"):
        here.caught(lambda: attempt(0))
    assert len(tries) == 4
    cluster.heal()


def test_run_fails_where_what_it_narrates_was_not_seen(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    def script(bench: Bench) -> None:
        bench.check(False, "the moon is made of cheese")

    seen = EXPERIMENTS["divergence"]._replace(script=script)
    monkeypatch.setitem(EXPERIMENTS, "divergence", seen)
    told = CliRunner().invoke(main, ["lab", "run", "divergence"])
    assert told.exit_code == 1 and "the moon is made of cheese" in told.output


def test_what_is_no_experiment_and_no_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["lab", "run", "nothing"])
    assert told.exit_code == 1 and "there is no experiment nothing: `highwater lab list`" in told.output
    told = CliRunner().invoke(main, ["lab", "run", "leader-kiled"])
    assert told.exit_code == 1 and "there is no experiment leader-kiled: did you mean leader-killed?" in told.output
    nowhere = tmp_path / "none" / "killed.jsonl"
    told = CliRunner().invoke(main, ["lab", "run", "leader-killed", "--record", str(nowhere)])
    assert told.output == f"Error: --record {nowhere}: there is no folder {nowhere.parent}\n"
    file = tmp_path / "other.json"
    file.write_text('{"a": 1}\n')
    told = CliRunner().invoke(main, ["lab", "replay", str(file)])
    assert told.exit_code == 1 and "this is no recording" in told.output


def test_words_are_filled_with_the_same_facts_in_both_languages() -> None:
    words = Words("{n} records", "레코드 {n}개")
    assert words.told("en", {"n": 3}) == "3 records" and words.told("ko", {"n": 3}) == "레코드 3개"
