"""The rows that a table must have, in plain dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.support.world.kinds import Kind
from tests.support.world.world import MAIN

Row = dict[str, Any]
RowChange = tuple[str, Row]
"""A row kind and a row."""
Commit = tuple[int, str]
"""What tells commits apart: the snapshot's number, and a name that no other commit has."""


class Rows:
    """What a table holds: rows by key, or any number of them. A value: changes give another one."""

    def __init__(self, kind: Kind, rows: Iterable[Row] = ()) -> None:
        self.kind = kind
        self.rows = list(rows)

    def after(self, changes: Sequence[RowChange]) -> Rows:
        """These rows with changes merged in, in order."""
        if not self.kind.primary_keys:
            return Rows(self.kind, [*self.rows, *(row for _, row in changes)])
        merged = {self._key(row): row for row in self.rows}
        for row_kind, row in changes:
            key = self._key(row)
            if row_kind == "-D":
                merged.pop(key, None)
            else:
                merged[key] = self._merge(merged.get(key), row)
        return Rows(self.kind, merged.values())

    def without(self, goes: Callable[[Row], bool]) -> Rows:
        """The rows that stay."""
        return Rows(self.kind, [row for row in self.rows if not goes(row)])

    def counted(self, names: Sequence[str]) -> Counter[tuple[Any, ...]]:
        """How often each row is there; columns that it has not are null."""
        return Counter(tuple(row.get(name) for name in names) for row in self.rows)

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.kind.primary_keys)

    def _merge(self, old: Row | None, new: Row) -> Row:
        if old is None or self.kind.engine == "deduplicate":
            return new
        if self.kind.engine == "first-row":
            return old
        merged = {**old, **{name: value for name, value in new.items() if value is not None}}
        if self.kind.engine == "aggregation":
            numbers = [row["v"] for row in (old, new) if row["v"] is not None]
            merged["v"] = sum(numbers) if numbers else None
        return merged

    def __eq__(self, other: object) -> bool:
        names = self.kind.schema.names
        return isinstance(other, Rows) and self.counted(names) == other.counted(names)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, _memo: object) -> Rows:
        return self


@dataclass
class Change:
    """What a commit does to the rows: `apply`, and which rows it may touch.

    `keeps_order`: beside another commit it depends on which came first. `shows_all`: what was hidden is seen after it.
    `base` is the commit that its maker saw.
    """

    apply: Callable[[Rows], Rows | None]
    touches: Callable[[Row], bool]
    keeps_order: bool = True
    shows_all: bool = False
    base: Commit | None = None


@dataclass
class BranchModel:
    """Main or a branch: the rows now, and those of its snapshots and tags (a tag with the id of its snapshot)."""

    rows: Rows
    at: dict[int, Rows] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    tagged: dict[str, Rows] = field(default_factory=dict)

    def tag(self, name: str, snapshot: int, rows: Rows) -> None:
        self.tags[name], self.tagged[name] = snapshot, rows

    def untag(self, name: str) -> None:
        del self.tags[name], self.tagged[name]

    def saw(self, ids: list[int]) -> None:
        """Takes in which snapshots there are after a job: what is new has the rows of now."""
        self.at = {number: self.at.get(number, self.rows) for number in ids}

    def back_to(self, snapshot: int, rows: Rows) -> None:
        """Newer snapshots and tags are deleted."""
        self.rows = rows
        self.at = {number: found for number, found in self.at.items() if number <= snapshot}
        self.at[snapshot] = rows
        for name in [name for name, number in self.tags.items() if number > snapshot]:
            self.untag(name)


@dataclass
class Model:
    """The whole table; `made_from` names the tag that each branch was made from."""

    main: BranchModel
    branches: dict[str, BranchModel] = field(default_factory=dict)
    made_from: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: Kind) -> Model:
        """An empty table."""
        return cls(BranchModel(Rows(kind)))

    def copy(self) -> Model:
        return deepcopy(self)

    def branch(self, name: str) -> BranchModel:
        return self.main if name == MAIN else self.branches[name]

    def all_branches(self) -> list[BranchModel]:
        return [self.main, *self.branches.values()]

    def forward(self, branch: str) -> None:
        """Main goes on where the branch is."""
        theirs = self.branches[branch]
        begin = min(theirs.at)
        for name in [name for name, number in self.main.tags.items() if number >= begin]:
            if theirs.tags.get(name) != self.main.tags[name]:
                self.main.untag(name)
        kept = {number: rows for number, rows in self.main.at.items() if number < begin}
        self.main.at = kept | deepcopy(theirs.at)
        self.main.rows = theirs.rows
        for name, number in theirs.tags.items():
            self.main.tag(name, number, theirs.tagged[name])
