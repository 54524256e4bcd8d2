"""Changes that were drawn, tried one after the other in a copy of the tree: by the nearest tests, then by scenarios."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from tests.mutations.copies import copy_of_tree, environment_of
from tests.mutations.drawing import Change, drawn
from tests.mutations.judge import Verdict
from tests.mutations.mutation import ROOT
from tests.mutations.unseen import why_unseen

PACKAGES = ("replication", "partition", "metadata", "controller", "quorum", "groups", "log", "coordinator")
KEPT = ROOT / ".reach"
"""Which test reaches which lines."""


@dataclass(frozen=True)
class Tried:
    package: str
    change: Change
    verdict: Verdict

    @property
    def is_unseen(self) -> bool:
        return why_unseen(self.change.file, self.change.before) is not None


def try_drawn(count: int, seed: int, packages: Sequence[str], nearest: bool) -> list[Tried]:
    """So many changes of each package; those that the package's own tests let pass are tried by the scenarios."""
    every: list[Tried] = []
    for package in packages:
        changes = drawn(ROOT, f"src/highwater/{package}", count, seed)
        click.echo(f"{package}: {len(changes)} changes drawn by seed {seed}")
        left = dict(enumerate(changes))
        results: dict[int, Tried] = {}
        for folder in tests_of(package, nearest):
            begun = time.monotonic()
            judged = verdicts(list(left.values()), folder)
            for at, verdict in zip(list(left), judged, strict=True):
                results[at] = Tried(package, left[at], merged(results.get(at), verdict))
                if verdict.killed:
                    change = left.pop(at)
                    click.echo(f"  killed   {shown(change)}\n{'':11}{verdict.why}")
            click.echo(f"{package}: {len(left)} let pass by {folder}, {time.monotonic() - begun:.0f} s")
            if not left:
                break
        for at, change in left.items():
            verdict = results[at].verdict
            why = why_unseen(change.file, change.before)
            why = f"no test can see it: {why}" if why else verdict.why or f"{verdict.tests} tests were green"
            click.echo(f"  SURVIVED {shown(change)}\n{'':11}{why}")
        every += [results[at] for at in sorted(results)]
    return every


def tests_of(package: str, nearest: bool) -> list[str]:
    folders = [f"tests/unit/{package}"]
    return folders if nearest else [*folders, "tests/scenarios"]


def merged(before: Tried | None, verdict: Verdict) -> Verdict:
    """A change that no scenario reaches may have been reached by a nearer test that let it pass."""
    if before is None or verdict.killed:
        return verdict
    tests = before.verdict.tests + verdict.tests
    return Verdict(False, "" if tests else verdict.why, tests)


def shown(change: Change) -> str:
    return f"{change.file}:{change.line} {change.kind}: {change.before} -> {change.after}"


def verdicts(changes: Sequence[Change], folder: str) -> Iterator[Verdict]:
    """In the order of the changes, each as soon as it is known."""
    with tempfile.TemporaryDirectory(prefix="highwater-mutants-") as home:
        tree = copy_of_tree(Path(home) / "tree")
        asked = {
            "changes": [asdict(change) for change in changes],
            "tests": [folder],
            "traced": [f"src/highwater/{package}" for package in PACKAGES],
            "kept": str(KEPT),
            "scratch": str(Path(home) / "scratch"),
        }
        command = [sys.executable, "-m", "tests.mutations.judge"]
        with (
            tempfile.TemporaryFile("w+") as said,
            subprocess.Popen(
                command,
                cwd=tree,
                env=environment_of(tree),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            ) as judge,
        ):
            assert judge.stdin is not None and judge.stdout is not None
            judge.stdin.write(json.dumps(asked) + "\n")
            judge.stdin.close()
            for line in judge.stdout:
                yield Verdict(**json.loads(line)["verdict"])
            if judge.wait() != 0:
                said.seek(0)
                raise click.ClickException(f"no verdict on {folder}:\n{said.read()[-4000:]}")


def summary(tried: Sequence[Tried]) -> str:
    """A line for each package: killed, drawn, and how many of the others no test can see."""
    lines = ["package       killed  drawn  unseen"]
    for package in dict.fromkeys(each.package for each in tried):
        own = [each for each in tried if each.package == package]
        killed = sum(each.verdict.killed for each in own)
        unseen = sum(not each.verdict.killed and each.is_unseen for each in own)
        lines.append(f"{package:<12} {killed:>7} {len(own):>6} {unseen:>7}")
    return "\n".join(lines)


def lowest_share(tried: Sequence[Tried]) -> float:
    """Killed of a hundred, in the package where it is least."""
    packages = {each.package for each in tried}
    shares = []
    for package in packages:
        own = [each.verdict.killed for each in tried if each.package == package]
        shares.append(100 * sum(own) / len(own))
    return min(shares)
