"""What a scenario's test must notice: one broken line for each, applied to a copy of the tree by `make mutants`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutation:
    """The line is named by its text, stripped, which its file holds once; several lines are joined by a newline."""

    scenario: str
    """As in the list of scenarios: A1, B14, C7; or F and the number of a fault that a review proved."""
    test: str
    """The test's id, from the root of the repository."""
    file: str
    line: str
    replacement: str
    """Takes the place of the line at the same indentation."""
    also: tuple[Mutation, ...] = ()
    """Broken along with it: a mend of several parts is taken back as a whole, or each would cover for the other."""

    def apply(self, tree: Path) -> None:
        """To a copy of the tree. Its files may be those of another copy, so they are replaced."""
        for each in (self, *self.also):
            target = tree / each.file
            broken = each.applied_to(target.read_text())
            target.unlink()
            target.write_text(broken)

    def applied_to(self, source: str) -> str:
        lines = source.split("\n")
        wanted = self.line.split("\n")
        found = [
            at
            for at in range(len(lines) - len(wanted) + 1)
            if [line.strip() for line in lines[at : at + len(wanted)]] == wanted
        ]
        if len(found) != 1:
            raise ValueError(f"{self.scenario}: {self.file} holds {len(found)} times: {self.line}")
        at = found[0]
        margin = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines[at : at + len(wanted)] = [margin + line for line in self.replacement.split("\n")]
        return "\n".join(lines)


@dataclass(frozen=True)
class Waiting:
    """A scenario whose mechanism comes with a later step."""

    scenario: str
    reason: str
