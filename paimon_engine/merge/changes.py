"""What a compaction changes: the rows that it leaves, and what a changelog says of them.

A window contains, in addition to the rows to be compacted, rows of their keys in higher levels that are only looked up.
Per key:

| rule | a new row is one | the old row is that | a change is reported |
| --- | --- | --- | --- |
| `full-compaction` | not at the highest level | at the highest level | for keys with a new row |
| `lookup` | at level 0 | newest above level 0, compacted or looked up | for keys with a new row |
| `first-row` | at level 0 | any above level 0 | for keys without an old row |

Rows have three additional columns: `LEVEL`, `SOURCE` (−1: to be compacted, else the number of the file in which
the row was looked up) and, where positions matter, `POSITION` in that file.

Example ('changelog-producer' = 'lookup'); a compaction says what the writes before it have changed:

    write   k=1 v=1
    write   k=2 v=1
    compact
    change  +I k=1 v=1
    change  +I k=2 v=1
    write   k=1 v=2
    write   k=1 v=3
    write   -D k=2 v=1
    compact
    change  -U k=1 v=1
    change  +U k=1 v=3
    change  -D k=2 v=1
    row     k=1 v=3

Source: `LookupChangelogMergeFunctionWrapper`, `FullChangelogMergeFunctionWrapper`, `FirstRowMergeFunctionWrapper` of
the Java library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.merge.difference import equal_values
from paimon_engine.merge.records import LEVEL, is_retract
from paimon_engine.merge.window import Positions, Window
from paimon_engine.meta.schema import VALUE_KIND

SOURCE: Final = "_SOURCE"
POSITION: Final = "_POSITION"

_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = 0, 1, 2, 3
_FEW: Final = 4
"""Where fewer than one in so many rows of a window are reported, they are gathered before they are joined."""

Mask = npt.NDArray[np.bool_]
Mode = Literal["full-compaction", "lookup", "first-row"]


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """How changes are found. `emits`: whether a changelog is wanted at all.

    `compared` names the columns in which an update must differ to be reported; None reports every update.
    """

    mode: Mode
    level_max: int
    emits: bool
    compared: tuple[str, ...] | None = None

    def is_old(self, levels: npt.NDArray[np.int32]) -> Mask:
        """Which rows hold the state from before the compaction."""
        return levels == self.level_max if self.mode == "full-compaction" else levels > 0


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes of the keys of a window.

    `rows`: one per key that is compacted. `changelog`: changes in key order, −U before +U; None if none is wanted, and
    `rows` itself where it says just that.
    `replaced`: for looked-up rows that a compacted row took the index of, the file's number and the row's position.
    """

    rows: pa.RecordBatch
    changelog: pa.RecordBatch | None
    replaced: tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]] | None


def changes_of(window: Window, merge: Callable[[Window], pa.RecordBatch], rule: ChangeRule) -> Changed:
    """Merges a window of at least one row, and says what changed.

    Raises: as `merge`.
    """
    versions = _Versions.of(window, rule)
    merged = merge(Window(versions.plain, versions.order, versions.starts))
    changelog = None
    if rule.emits:
        changelog = versions.insertions(merged) if rule.mode == "first-row" else versions.changes(merged, rule.compared)
    replaced = versions.replaced() if POSITION in window.rows.schema.names else None
    was_there = versions.is_looked_up if rule.mode == "first-row" else np.zeros(0, np.bool_)
    return Changed(merged.filter(pa.array(~was_there)) if was_there.any() else merged, changelog, replaced)


@dataclass(frozen=True, slots=True)
class _Versions:
    """The versions of k keys, at most one of each old: `order[n]` in `rows`, by key and oldest first.

    `old[k]` is the index in `order` of a key's old version, −1 if it has none; `has_new[k]` whether others exist.
    """

    rows: pa.RecordBatch
    order: Positions
    starts: Positions
    old: Positions
    has_new: Mask

    @classmethod
    def of(cls, window: Window, rule: ChangeRule) -> _Versions:
        rows, starts = window.rows, window.starts
        order = np.arange(rows.num_rows) if window.order is None else window.order
        old_rows = rule.is_old(np.asarray(rows[LEVEL])[order])
        key_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        newest_old = np.full(len(starts), -1)
        # Ascending indices: the last assignment to a key wins, which is its newest old row.
        newest_old[key_of[old_rows]] = np.flatnonzero(old_rows)
        kept = ~old_rows
        kept[newest_old[newest_old >= 0]] = True
        has_new = np.logical_or.reduceat(~old_rows, starts)
        if kept.all():
            return cls(rows, order, starts, newest_old, has_new)
        before = np.append(0, np.cumsum(kept))
        fewer = rows.take(pa.array(order[kept]))
        old = np.where(newest_old < 0, -1, before[newest_old])
        return cls(fewer, np.arange(fewer.num_rows), before[starts], old, has_new)

    @property
    def plain(self) -> pa.RecordBatch:
        """The rows in the form of merge functions."""
        own = [name for name in (LEVEL, SOURCE, POSITION) if name in self.rows.schema.names]
        return self.rows.drop_columns(own)

    @property
    def is_looked_up(self) -> Mask:
        """Per key, whether its old version is in a file that is only looked up."""
        return (self.old >= 0) & (np.asarray(self.rows[SOURCE])[self._old_rows()] >= 0)

    def _old_rows(self) -> Positions:
        """Positions in `rows` of the old versions; any for keys without one."""
        return self.order[np.maximum(self.old, 0)]

    def replaced(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """File number and position of each looked-up row whose key has a new version."""
        found = self._old_rows()[self.is_looked_up & self.has_new]
        return np.asarray(self.rows[SOURCE])[found], np.asarray(self.rows[POSITION])[found]

    def insertions(self, merged: pa.RecordBatch) -> pa.RecordBatch:
        """The row of each key that has no old version; it keeps its kind, +I or +U, as in Java."""
        came = np.flatnonzero(self.has_new & (self.old < 0))
        return _taken(merged, came)

    def changes(self, merged: pa.RecordBatch, compared: tuple[str, ...] | None) -> pa.RecordBatch:
        """How the keys with new versions changed."""
        plain, old_rows = self.plain, self._old_rows()
        existed = (self.old >= 0) & ~is_retract(np.asarray(plain[VALUE_KIND])[old_rows])
        exists = ~is_retract(np.asarray(merged[VALUE_KIND]))
        updated = self.has_new & existed & exists
        if compared is not None and updated.any():
            indices = np.flatnonzero(updated)
            before, after = plain.take(pa.array(old_rows[indices])), merged.take(pa.array(indices))
            same = [equal_values(before[name], after[name]) for name in compared]
            updated[indices] = ~np.logical_and.reduce(same) if same else False
        gone = self.has_new & existed & ~exists
        came = self.has_new & ~existed & exists
        before_of, after_of = np.flatnonzero(updated | gone), np.flatnonzero(updated | came)
        kinds_before = np.where(gone[before_of], _DELETE, _UPDATE_BEFORE)
        kinds_after = np.where(came[after_of], _INSERT, _UPDATE_AFTER)
        if not len(before_of):
            return _with_kinds(_taken(merged, after_of), kinds_after)
        positions = np.concatenate([old_rows[before_of], plain.num_rows + after_of])
        side_by_side = np.argsort(np.concatenate([2 * before_of, 2 * after_of + 1]), kind="stable")
        if len(positions) < plain.num_rows // _FEW:
            few = [plain.take(pa.array(old_rows[before_of])), merged.take(pa.array(after_of))]
            reported = pa.concat_batches(few).take(pa.array(side_by_side))
        else:
            # Joining batches costs less than gathering rows, which is done once here.
            reported = pa.concat_batches([plain, merged]).take(pa.array(positions[side_by_side]))
        return _with_kinds(reported, np.concatenate([kinds_before, kinds_after])[side_by_side])


def _taken(rows: pa.RecordBatch, indices: Positions) -> pa.RecordBatch:
    """The rows at ascending indices without repetition."""
    return rows if len(indices) == rows.num_rows else rows.take(pa.array(indices))


def _with_kinds(rows: pa.RecordBatch, kinds: npt.NDArray[np.int64]) -> pa.RecordBatch:
    if np.array_equal(rows[VALUE_KIND], kinds):
        return rows
    index = rows.schema.get_field_index(VALUE_KIND)
    column = pa.array(kinds.astype(np.int8), rows.schema.field(index).type)
    return rows.set_column(index, rows.schema.field(index), column)
