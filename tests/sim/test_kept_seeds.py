"""Seeds that once found something wrong, in a node or in its judges. They stay, whatever they show today."""

from __future__ import annotations

import pytest

from highwater.sim.trial import Trial

KEPT = {
    ("all", 965): "a snapshot that arrived while a vote was written was at work on the file of the other",
    ("all", 137): "a node took zeros in its meta.properties for the id of another cluster, and started",
    ("incarnations", 2): "after an unclean election a record lay elsewhere than it was acknowledged, which is no fault",
    ("creations", 5): "a file written anew after a failed sync was taken for lost, which no disk does",
    ("cold-reads", 101): "followers could not copy as fast as clients wrote, so slow was their world",
    ("spoiled-files", 5): "a log was left out by an error that did not name the damaged file",
    ("rot", 34): "a cleaner met a batch whose offset had rotted, and broke on it",
    ("all", 1_000_367): "a sync that began while its disk was slow went on being slow long after the disk was well",
    (
        "all",
        1_000_872,
    ): "a log could not be cut since a checkpoint could not be written, and that was called groundless",
    ("bounds", 124): "a leader that was deposed and did not know it lacked what was written since, as it may",
    ("bounds", 8): "a request that was given a moment, and had no answer by then, was called unanswered",
    ("all", 2_000_781): "a node that was stopped without descriptors took its logs offline",
    ("all", 3_002_573): "a follower whose last batch had moved never caught up",
    ("all", 7_000_124): "a voter went on with a leader epoch in its metadata log that had rotted",
    ("all", 9_000_319): "the last replica that had everything was cut off when the disk of the other was replaced",
    ("all", 9_400_638): "readers were refused the damaged bytes of the only copy, as they have to be",
    ("all", 9_500_440): "nobody started a node again that was struck before everything healed, and fell after it",
    ("all", 2_000_533): "a deletion whose client had given up took effect after a creation was answered",
    ("all", 700032): "a write that the earlier life of a topic had taken was asked of the next one",
}


@pytest.mark.parametrize(("profile", "seed"), KEPT, ids=lambda each: str(each))
def test_a_seed_that_found_something_finds_nothing_now(profile: str, seed: int) -> None:
    found = Trial(seed, profile=profile)()
    assert found is None, found.text()
