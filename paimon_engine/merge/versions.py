"""The versions of the keys that have several, and inserting their results among the other keys.

A key with one version keeps it as it is, delete record or not: so says Paimon's merge, whatever the engine.
So a merge function looks at `Versions` only and says for each column what becomes of it; `merge_versions` does the
rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import as_numbers
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.gather import elements_at, gather, replaced, valid_at, validity
from paimon_engine.merge.records import is_retract
from paimon_engine.merge.window import Positions, Window
from paimon_engine.meta.schema import VALUE_KIND

Mask = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int8]
INSERT, UPDATE_BEFORE, DELETE = 0, 1, 3
_STEPS_BACK_MAX: Final = 8


class Step(IntEnum):
    """What a version does to the value so far: it is added as a newer or as an older one, or it is retracted."""

    ADD = 0
    ADD_BELOW = 1
    RETRACT = 2


@dataclass(frozen=True, slots=True)
class VersionRows:
    """Versions of the keys of these numbers, one of each, or of one key: `positions` in the window's rows."""

    keys: Positions | slice
    positions: Positions
    retracts: Mask | None
    """Which of them take something back; None: none."""


@dataclass(frozen=True)
class Versions:
    """Rows of k keys, by key and oldest first: `positions[n]` in the window's rows, `steps[n]` as `Step`.

    Key i has the rows from `starts[i]` on, up to `ends[i]`; where some were left out it may have none.
    """

    rows: pa.RecordBatch
    positions: Positions
    starts: Positions
    ends: Positions
    steps: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def keys(self) -> npt.NDArray[np.int64]:
        """Number of the key of each row: shape [n], ascending."""
        return np.repeat(np.arange(len(self.starts)), self.ends - self.starts)

    @property
    def kinds(self) -> Kinds:
        """Row kind of each row."""
        return np.asarray(self.rows[VALUE_KIND]).astype(np.int8)[self.positions]

    @property
    def retracts(self) -> Mask:
        """Which rows take something back."""
        return np.asarray(self.steps == Step.RETRACT)

    @cached_property
    def turns(self) -> tuple[Sequence[VersionRows], Sequence[VersionRows]]:
        """The first version of each key, the second ones of those that have it, and so on; the rest of single keys.

        What is left for the latter are a few long histories: a key takes about as long as a turn.
        """
        lengths, retracts = self.ends - self.starts, self.retracts

        def rows(keys: Positions | slice, indices: Positions) -> VersionRows:
            return VersionRows(keys, self.positions[indices], retracts[indices] if retracts.any() else None)

        side_by_side, active, left = [], np.arange(len(lengths)), lengths
        longest = int(lengths.max(initial=0))
        for turn in range(longest + 1):
            still = np.flatnonzero(left > turn)
            if len(still) < len(left):
                active, left = active[still], left[still]
            if len(active) <= longest - turn:
                break
            keys = active if len(active) < len(lengths) else slice(None)
            side_by_side.append(rows(keys, self.starts[keys] + turn))
        long = zip(active.tolist(), self.starts[active] + turn, self.ends[active], strict=True)
        return side_by_side, [rows(slice(key, key + 1), np.arange(begin, end)) for key, begin, end in long]

    def values(self, column: str) -> pa.Array:
        """Values of a column: shape [n]."""
        return gather(self.rows[column], self.positions)

    def valid(self, column: str) -> Mask:
        """Which values of a column are not null."""
        return valid_at(self.rows[column], self.positions)

    def only(self, kept: Mask) -> Versions:
        """The same keys with some of their rows."""
        if kept.all():
            return self
        before = np.zeros(len(kept) + 1, dtype=np.intp)
        np.cumsum(kept, out=before[1:])
        # Gathering at indices is several times as fast as choosing by a mask that is true here and there.
        indices = np.flatnonzero(kept)
        return Versions(self.rows, self.positions[indices], before[self.starts], before[self.ends], self.steps[indices])

    def with_steps(self, steps: npt.NDArray[np.int8]) -> Versions:
        """The same rows with other steps."""
        return Versions(self.rows, self.positions, self.starts, self.ends, steps)

    def since(self, begin: Positions) -> Versions:
        """The same keys with their rows from `begin[i]` on."""
        return self.only(np.arange(len(self)) >= begin[self.keys])

    def first(self, chosen: Mask) -> Positions:
        """Per key the index of the first chosen row, −1 if there is none."""
        following = np.full(len(chosen) + 1, len(chosen))
        hits = np.flatnonzero(chosen)
        following[hits] = hits
        found = np.minimum.accumulate(following[::-1])[::-1][self.starts]
        return np.where(found < self.ends, found, -1)

    def last(self, chosen: Mask) -> Positions:
        """Per key the index of the last chosen row, −1 if there is none."""
        if not len(chosen):
            return np.full(len(self.starts), -1)
        found = np.where(self.ends > self.starts, self.ends - 1, -1)
        left = np.flatnonzero((found >= 0) & ~chosen[found])
        # Few versions of most keys need a look: one step back at a time, for fewer and fewer keys.
        for _ in range(_STEPS_BACK_MAX):
            if not len(left):
                return found
            found[left] -= 1
            over = found[left] < self.starts[left]
            found[left[over]] = -1
            left = left[~over]
            left = left[~chosen[found[left]]]
        before = np.maximum.accumulate(np.where(chosen, np.arange(len(chosen)), -1))[found[left]]
        found[left] = np.where(before >= self.starts[left], before, -1)
        return found

    @cached_property
    def newest(self) -> Positions:
        """Per key the position in the window's rows of its last row, −1 if it has none."""
        return self.at(np.where(self.ends > self.starts, self.ends - 1, -1))

    def newest_valid(self, column: str) -> Positions:
        """Per key the position in the window's rows of the last row whose value is not null, else of its last row.

        So the value there is null only if all are; −1 for a key without rows. It looks at the values of the rows that
        matter only, not at all of them.
        """
        values = self.rows[column]
        newest = self.newest
        if not (values.null_count and len(self)):
            return newest
        valid = validity(values)
        # An index of −1 takes the last value, which does not matter: it stays.
        left = (~valid.take(newest) & (newest >= 0)).nonzero()[0]
        found = newest.copy()
        indices, begin = self.ends[left] - 1, self.starts[left]
        # One step back at a time, for fewer and fewer keys: many short steps, for which `flatnonzero` takes too long.
        for _ in range(_STEPS_BACK_MAX):
            indices -= 1
            open_ = (indices >= begin).nonzero()[0]
            left, indices, begin = left.take(open_), indices.take(open_), begin.take(open_)
            if not len(left):
                return found
            positions = self.positions.take(indices)
            hit = valid.take(positions)
            hits, open_ = hit.nonzero()[0], (~hit).nonzero()[0]
            found[left.take(hits)] = positions.take(hits)
            left, indices, begin = left.take(open_), indices.take(open_), begin.take(open_)
        last = self.last(valid.take(self.positions))[left]
        found[left] = np.where(last < 0, newest[left], self.at(last))
        return found

    def at(self, indices: Positions) -> Positions:
        """Positions in the window's rows of indices among these; −1 stays."""
        return np.where(indices < 0, -1, self.positions[indices]) if len(self) else indices


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Elements of lists of versions: `members[i]` of version `owners[i]`, which belongs to key `keys[i]`, ascending."""

    keys: Positions
    owners: Positions
    members: Positions


@dataclass(frozen=True, slots=True)
class Joined:
    """The lists or maps of each key's `versions`, in none of which they are null, one behind another; null without any.

    Some elements may be left out. So elements are moved once, or not at all.
    """

    versions: Versions
    left_out: LeftOut | None = None

    def lists(self, column: pa.Array) -> pa.Array:
        """The list of each key, given the column of the window's rows."""
        versions = self.versions
        return _joined(column, versions.positions, versions.starts, versions.ends > versions.starts, self.left_out)

    def with_other_keys(self, column: pa.Array, window: Window, several: Positions, *, whole: bool) -> pa.Array:
        """The list of each of several keys of a window, and those of the other keys as they are.

        `whole` says that no version is left out, and that they have their order.
        """
        versions, left_out = self.versions, self.left_out
        positions, starts, some = window.order, window.starts, np.ones(len(window.starts), dtype=bool)
        if not whole:
            counts = np.ones(len(starts), dtype=np.intp)
            counts[several] = versions.ends - versions.starts
            starts, some = np.cumsum(counts) - counts, counts > 0
            is_several = np.zeros(len(counts), dtype=bool)
            is_several[several] = True
            belongs = np.repeat(is_several, counts)
            positions = np.empty(len(belongs), dtype=np.intp)
            positions[np.flatnonzero(belongs)] = versions.positions
            positions[np.flatnonzero(~belongs)] = window.newest[~is_several]
        if column.null_count:
            positions = np.arange(len(column)) if positions is None else positions
            some[some] = valid_at(column, positions[starts[some]])
        if left_out:
            keys = several[left_out.keys]
            owners = left_out.owners + (starts[keys] - versions.starts[left_out.keys])
            left_out = LeftOut(keys, owners, left_out.members)
        return _joined(column, positions, starts, some, left_out)


def _joined(
    lists: pa.Array, positions: Positions | None, starts: Positions, some: Mask, left_out: LeftOut | None
) -> pa.Array:
    """Lists made of the lists at these positions, or all, from `starts` on, one key's behind another."""
    indices: npt.NDArray[np.integer[Any]] | None = None
    if positions is None:
        offsets = np.asarray(lists.offsets)
    else:
        indices, offsets = elements_at(lists, positions)
    begins = offsets[np.append(starts, len(offsets) - 1)]
    if left_out and len(left_out.keys):
        stays = np.ones(offsets[-1], dtype=bool)
        stays[: offsets[0]] = False
        stays[offsets[left_out.owners] + left_out.members] = False
        kept = np.flatnonzero(stays)
        indices = kept if indices is None else indices[kept]
        numbers = np.arange(len(left_out.keys) + 1, dtype=begins.dtype)
        # None of them lies before the keys up to the first one's, one before those up to the next one's, and so on.
        begins -= offsets[0] + np.repeat(numbers, np.diff(left_out.keys, prepend=-1, append=len(starts)))
    elements = lists.values if indices is None else pc.take(lists.values, pa.array(indices), boundscheck=False)
    bits = None if some.all() else pa.py_buffer(np.packbits(some, bitorder="little"))
    return pa.Array.from_buffers(lists.type, len(starts), [bits, pa.py_buffer(begins)], children=[elements])


Merged: TypeAlias = Positions | pa.Array | Joined
"""What becomes of a column, per key: positions in the window's rows (−1: null), values, or lists made of lists."""


def put_back(versions: Versions, merged: Merged, column: str, chosen: Mask, positions: Positions) -> Merged:
    """The merged column, but for the chosen keys with the value at those positions in the window's rows."""
    if isinstance(merged, np.ndarray):
        return np.where(chosen, positions, merged)
    if isinstance(merged, Joined):
        merged = merged.lists(versions.rows[column])
    stored = versions.rows[column].take(pa.array(np.where(chosen, positions, 0)))
    indices = np.arange(len(merged)) + np.where(chosen, len(merged), 0)
    return pa.concat_arrays([merged, stored]).take(pa.array(indices))


MergeVersions = Callable[[Versions], tuple[Mapping[str, Merged], Kinds]]
"""What becomes of the columns of the versions' rows, and the row kind per key.

The sequence number and columns that are left out, as those of the primary key, are those of the newest version.
"""


def merge_versions(
    window: Window, merge: MergeVersions, required: Collection[str], *, lone: bool = False
) -> pa.RecordBatch:
    """One row per key, in key order: `merge` for keys with several versions, the others as they are.

    With `lone`, keys with a single version are merged too.
    Raises: InvalidArgumentError naming a `required` column that would become null.
    """
    rows, ends = window.rows, window.ends
    if len(ends) == rows.num_rows and not lone:
        return rows if window.order is None else rows.take(pa.array(window.order))
    counts = ends - window.starts
    newest = ends - 1 if window.order is None else window.order[ends - 1]
    several = np.arange(len(ends)) if lone else np.flatnonzero(counts > 1)
    versions = _several(window, counts, several)
    columns, kinds = merge(versions)
    out = []
    for name in rows.schema.names:
        if name == VALUE_KIND:
            column = _kinds(rows[name], newest, several, kinds)
        elif name not in columns:
            column = gather(rows[name], newest)
        elif isinstance(merged := columns[name], Joined):
            whole = merged.versions.positions is versions.positions
            column = merged.with_other_keys(rows[name], window, several, whole=whole)
        else:
            column = _spread(rows[name], newest, several, merged)
        if name in required and column.null_count:
            raise InvalidArgumentError(
                f"column {name!r} is NOT NULL, but merging the versions of a key leaves it null; make it nullable"
            )
        out.append(column)
    return pa.RecordBatch.from_arrays(out, schema=rows.schema)


def _several(window: Window, counts: Positions, several: Positions) -> Versions:
    """The versions of the keys of these numbers, which have several, or of all keys; `counts` has those of each key."""
    rows = window.rows
    if len(several) == len(counts):
        indices = np.arange(rows.num_rows)
    else:
        # A row behind which the next key begins is the only one of its key if it begins one itself.
        begins = np.zeros(rows.num_rows + 1, dtype=bool)
        begins[window.starts] = begins[-1] = True
        indices = np.flatnonzero(~(begins[1:] & begins[:-1]))
    positions = indices if window.order is None else window.order[indices]
    counts = counts[several]
    ends = np.cumsum(counts)
    retracts = is_retract(as_numbers(rows[VALUE_KIND]))
    steps = np.zeros(len(positions), dtype=np.int8)
    if retracts.any():
        steps[retracts[positions]] = Step.RETRACT
    return Versions(rows, positions, ends - counts, ends, steps)


def _kinds(column: pa.Array, newest: Positions, several: Positions, merged: Kinds) -> pa.Array:
    """The row kind per key: the newest one, but for keys with several versions what it became."""
    given = np.asarray(column).astype(np.int8)
    if not (given.any() or merged.any()):
        return column.slice(0, len(newest))
    found = given[newest]
    found[several] = merged
    return pa.array(found, column.type)


def _spread(column: pa.Array, newest: Positions, several: Positions, merged: Positions | pa.Array) -> pa.Array:
    """The column's value per key: the newest one, but for keys with several versions what they became."""
    if not isinstance(merged, np.ndarray):
        return replaced(column, newest, several, merged)
    taken = newest.copy()
    taken[several] = merged
    return gather(column, taken)
