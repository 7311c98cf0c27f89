"""Nested tables: aggregate functions over lists of rows, and over maps to rows, that came after Paimon 0.9.

| function | rows are equal | add | retract |
| --- | --- | --- | --- |
| `nested_update` with an option below | by `nested-key`, else wholly | replaces an equal one, else behind | as before |
| `nested_partial_update` | by `nested-key` | its fields that are not null replace those of the equal row | none |
| `merge_map_with_keytime` | by the map's key | replaces an equal one that is older by its time field | none |

`count-limit` adds no new row if there are so many; `nested-sequence-field` says which of two equal rows is newer;
`nested-key-null-strategy` what to do with rows with a null in their key. Lists have no null rows afterwards, and where
rows have a key, each key once.

Source: `FieldNestedUpdateAgg`, `FieldNestedPartialUpdateAgg`, `FieldMergeMapWithKeyTimeAgg` of release 2.0 of the Java
library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.choose import ordered_numbers
from paimon_engine.merge.equality import Codes, codes
from paimon_engine.merge.gather import validity
from paimon_engine.merge.lists import Elements, ListFunction, entries_of, key_fields, lists_of, lowest_first
from paimon_engine.merge.versions import Mask, Step, Versions
from paimon_engine.merge.window import Positions


@dataclass(frozen=True, slots=True)
class NestedKey:
    """Fields that identify rows of a nested table, and what happens to rows with a null in one of them."""

    fields: tuple[str, ...]
    nulls: str = "merge"

    def rows(self, values: pa.Array) -> tuple[pa.Array, Positions]:
        """The rows of lists without nulls that count, and the list of each.

        Raises: InvalidArgumentError where a null is in the key of a row, and the strategy is `error`.
        """
        rows, owner = entries_of(values)
        kept = validity(rows)
        if self.nulls != "merge":
            complete = np.logical_and.reduce([validity(pc.struct_field(rows, name)) for name in self.fields])
            if self.nulls == "error" and (kept & ~complete).any():
                raise InvalidArgumentError(
                    f"'nested-key' = '{','.join(self.fields)}': a row has a null in its key, and "
                    "'nested-key-null-strategy' = 'error' requires an error; 'ignore' leaves such rows out"
                )
            kept &= complete
        return rows.filter(pa.array(kept)), owner[kept]


class NestedUpdate(ListFunction):
    """`nested_update` with a limit, an order of the rows of a nested key, or a rule for nulls in it."""

    def __init__(self, key: NestedKey, *, limit: int | None = None, sequence: Sequence[str] = ()) -> None:
        """Without key fields no row is replaced, and there is no `sequence`."""
        super().__init__(replaces=bool(key.fields))
        self._key = key
        self._limit = limit
        self._sequence = tuple(sequence)

    def entries(self, values: pa.Array) -> tuple[pa.Array, Positions]:
        """Rows of the lists."""
        return self._key.rows(values)

    def compared(self, entries: pa.Array) -> pa.Array:
        """The nested keys, or complete rows."""
        return key_fields(entries, self._key.fields)

    def needs_fold(self, versions: Versions) -> bool:
        """Where a list goes below another one, what is left of the limit depends on every step."""
        below = self._limit is not None and bool((versions.steps == Step.ADD_BELOW).any())
        return below or super().needs_fold(versions)

    def merged(self, versions: Versions, column: str) -> pa.Array:
        """The nested table of each key where nothing is taken back."""
        rows, row = self.entries(versions.values(column))
        found = Elements(rows, codes(self.compared(rows)) if self.replaces else row, row)
        kept = self._kept(versions, found)
        some = versions.ends > versions.starts
        lengths = np.bincount(versions.keys[row[kept]], minlength=len(some))
        return lists_of(rows, kept, lengths, some, versions.rows[column].type)

    def _kept(self, versions: Versions, found: Elements) -> Positions:
        """Which rows stay, ascending."""
        indices, keys = np.arange(len(found.row)), versions.keys[found.row]
        if not len(indices):
            return indices
        numbers = keys * (int(found.codes.max()) + 1) + found.codes if self.replaces else indices
        _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        if self._limit is not None:
            by_arrival = np.sort(first)
            nth = np.arange(len(first)) - np.searchsorted(keys[by_arrival], keys[by_arrival])
            inside = np.zeros(len(indices), dtype=bool)
            inside[by_arrival[nth < self._limit]] = True
            indices = indices[inside[first][inverse]]
        newest = np.full(len(first), -1)
        order = np.lexsort([indices, self._ages(found)[indices], inverse[indices]])
        newest[inverse[indices][order]] = indices[order]
        return np.sort(newest[newest >= 0])

    def _ages(self, found: Elements) -> npt.NDArray[np.int64]:
        return lexicographic([found.entries.field(name) for name in self._sequence], len(found.row))

    def _folded(self, versions: Versions, found: Elements, key: int) -> Sequence[int] | None:
        begin, end = int(versions.starts[key]), int(versions.ends[key])
        bounds = np.searchsorted(found.row, np.arange(begin, end + 1)).tolist()
        ages, equal = self._ages(found), found.codes
        state: list[int] | None = None
        for step, low, high in zip(versions.steps[begin:end].tolist(), bounds, bounds[1:], strict=False):
            members = list(range(low, high))
            if step == Step.RETRACT:
                state = None if state is None else self._without(self._united(state, equal), members, equal)
            elif step == Step.ADD_BELOW:
                state = self._joined(members, state or [], equal, ages)
            else:
                state = self._joined(state or [], members, equal, ages)
        return state

    def _joined(self, old: list[int], new: list[int], equal: Codes, ages: npt.NDArray[np.int64]) -> list[int]:
        limit = len(equal) if self._limit is None else self._limit
        if not self.replaces:
            return [*old, *new[: max(limit - len(old), 0)]]
        rows: dict[int, int] = {}
        for number, index in enumerate([*old, *new]):
            code = int(equal[index])
            there = rows.get(code)
            if (number < len(old) or len(rows) < limit) if there is None else ages[index] >= ages[there]:
                rows[code] = index
        return list(rows.values())


class NestedPartialUpdate:
    """`nested_partial_update`: rows of equal nested key become one, of the newest values that are not null."""

    def __init__(self, key: NestedKey) -> None:
        """The key has fields."""
        self._key = key

    def __call__(self, versions: Versions, column: str) -> pa.Array:
        """The nested table of each key."""
        counted = lowest_first(versions.only(versions.valid(column)))
        some, values = counted.ends > counted.starts, counted.values(column)
        if not some.any():
            return pa.nulls(len(some), values.type)
        rows, owner = self._key.rows(values)
        equal = codes(key_fields(rows, self._key.fields))
        keys = counted.keys[owner]
        numbers = keys * (int(equal.max(initial=0)) + 1) + equal
        _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        assert isinstance(rows, pa.StructArray)
        fields = [_newest(rows.field(number), inverse, len(first)) for number in range(rows.type.num_fields)]
        merged = pa.StructArray.from_arrays(fields, fields=list(rows.type))
        lengths = np.bincount(keys[first], minlength=len(some))
        return lists_of(merged, np.argsort(first), lengths, some, values.type)


def _newest(values: pa.Array, group: Positions, count: int) -> pa.Array:
    """The last value of each group that is not null."""
    chosen = np.full(count, -1)
    indices = np.flatnonzero(validity(values))
    np.maximum.at(chosen, group[indices], indices)
    return values.take(pa.array(chosen, mask=chosen < 0))


class MapWithKeyTime:
    """`merge_map_with_keytime`: an entry replaces one of the same key whose row is older by its time field, a text.

    An entry without a time replaces none, one without a row takes away that of its key.
    """

    def __init__(self, time_field: str) -> None:
        """The field of the rows that contains the time."""
        self._time_field = time_field

    def __call__(self, versions: Versions, column: str) -> pa.Array:
        """The map of each key."""
        counted = versions.only(versions.valid(column))
        some = counted.ends > counted.starts
        if not some.any():
            return pa.nulls(len(some), versions.rows[column].type)
        found = self._entries(counted.values(column))
        if not (found.is_gone.any() and (counted.steps == Step.ADD_BELOW).any()):
            counted = lowest_first(counted)
            found = self._entries(counted.values(column))
            kept = _newest_entries(counted, found)
            lengths = np.bincount(counted.keys[found.row[kept]], minlength=len(some))
        else:
            chosen = [_folded_entries(counted, found, key) for key in range(len(some))]
            lengths = np.array([len(indices) for indices in chosen])
            kept = np.array([index for indices in chosen for index in indices], dtype=np.int64)
        return lists_of(found.entries, kept, lengths, some, versions.rows[column].type)

    def _entries(self, values: pa.Array) -> _TimedEntries:
        entries, owner = entries_of(values)
        rows = entries.field(1)
        times = _as_java_compares(pc.struct_field(rows, self._time_field))
        return _TimedEntries(
            entries, codes(entries.field(0)), owner, lexicographic([times], len(rows)), ~validity(rows)
        )


@dataclass(frozen=True, slots=True)
class _TimedEntries(Elements):
    """Entries of maps with their ages, 0 without a time, and whether they have no row."""

    ages: npt.NDArray[np.int64]
    is_gone: Mask


def _newest_entries(versions: Versions, found: _TimedEntries) -> Positions:
    """Indices of the entries that stay, ascending; the first map of a key is taken unchanged."""
    indices = np.arange(len(found.row))
    if not len(indices):
        return indices
    keys = versions.keys[found.row]
    given = found.row == versions.starts[keys]
    groups = np.unique(keys * (int(found.codes.max()) + 1) + found.codes, return_inverse=True)[1]
    removed = np.full(int(groups.max()) + 1, -1)
    removals = indices[found.is_gone & ~given]
    np.maximum.at(removed, groups[removals], removals)
    indices = indices[(indices > removed[groups]) & (given | (found.ages > 0))]
    # Of equal age the first one stays: it comes last in this order.
    order = np.lexsort([-indices, found.ages[indices], groups[indices]])
    newest = np.full(len(removed), -1)
    newest[groups[indices][order]] = indices[order]
    return np.sort(newest[newest >= 0])


def _folded_entries(versions: Versions, found: _TimedEntries, key: int) -> list[int]:
    """Indices of the entries of a key, step by step: what was taken away leaves no trace for maps that go below."""
    begin, end = int(versions.starts[key]), int(versions.ends[key])
    bounds = np.searchsorted(found.row, np.arange(begin, end + 1)).tolist()
    state: list[int] | None = None
    for step, low, high in zip(versions.steps[begin:end].tolist(), bounds, bounds[1:], strict=False):
        members = list(range(low, high))
        if state is None:
            state = members
        else:
            state = _put(found, members, state) if step == Step.ADD_BELOW else _put(found, state, members)
    return state or []


def _put(found: _TimedEntries, old: Iterable[int], new: Iterable[int]) -> list[int]:
    entries = {int(found.codes[index]): index for index in old}
    for index in new:
        code = int(found.codes[index])
        if found.is_gone[index]:
            entries.pop(code, None)
        elif found.ages[index] and (code not in entries or found.ages[index] > found.ages[entries[code]]):
            entries[code] = index
    return list(entries.values())


def lexicographic(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.int64]:
    """Numbers that order rows by those columns, nulls first: shape [count]; of a single column nulls have 0."""
    result = np.zeros(count, dtype=np.int64)
    for column in columns:
        valid, ages = validity(column), np.zeros(count, dtype=np.int64)
        if valid.any():
            ages[valid] = np.unique(ordered_numbers(column.drop_null()), return_inverse=True)[1] + 1
        result = result * (int(ages.max(initial=0)) + 1) + ages
        if len(columns) > 1:
            result = np.unique(result, return_inverse=True)[1]
    return result


def _as_java_compares(texts: pa.Array) -> pa.Array:
    """Bytes that compare as Java's strings do: by units of 16 bits."""
    if pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
        return texts
    units = [None if text is None else text.encode("utf-16-be") for text in texts.to_pylist()]
    return pa.array(units, pa.binary())
