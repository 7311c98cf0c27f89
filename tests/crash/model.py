"""What a table must contain, kept in plain dictionaries."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

Rows = dict[tuple[str, int], int]
"""Value by partition and key."""


@dataclass
class Line:
    """Main or a branch: the rows now, and those of its snapshots and tags (a tag with the id of its snapshot)."""

    rows: Rows = field(default_factory=dict)
    at: dict[int, Rows] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    tagged: dict[str, Rows] = field(default_factory=dict)

    def tag(self, name: str, snapshot: int, rows: Rows) -> None:
        self.tags[name], self.tagged[name] = snapshot, dict(rows)

    def untag(self, name: str) -> None:
        del self.tags[name], self.tagged[name]

    def saw(self, ids: list[int]) -> None:
        """Takes in which snapshots there are after a job: what is new has the rows of now."""
        self.at = {number: self.at.get(number, dict(self.rows)) for number in ids}

    def back_to(self, snapshot: int, rows: Rows) -> None:
        """Newer snapshots and tags are deleted."""
        self.rows = dict(rows)
        self.at = {number: found for number, found in self.at.items() if number <= snapshot}
        self.at[snapshot] = dict(rows)
        for name in [name for name, number in self.tags.items() if number > snapshot]:
            self.untag(name)


@dataclass
class Model:
    """The whole table; `made_from` names the tag that each branch was made from."""

    main: Line = field(default_factory=Line)
    branches: dict[str, Line] = field(default_factory=dict)
    made_from: dict[str, str | None] = field(default_factory=dict)

    def copy(self) -> Model:
        return deepcopy(self)

    def forward(self, branch: str) -> None:
        """Main continues from the branch."""
        theirs = self.branches[branch]
        begin = min(theirs.at)
        for name in [name for name, number in self.main.tags.items() if number >= begin]:
            if theirs.tags.get(name) != self.main.tags[name]:
                self.main.untag(name)
        kept = {number: rows for number, rows in self.main.at.items() if number < begin}
        self.main.at = kept | deepcopy(theirs.at)
        self.main.rows = dict(theirs.rows)
        for name, number in theirs.tags.items():
            self.main.tag(name, number, theirs.tagged[name])
