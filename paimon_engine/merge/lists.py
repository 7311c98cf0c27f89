"""Aggregate functions whose values are lists: `listagg`, `collect`, `merge_map` and `nested_update`.

Elements are never taken apart. Each has a number that is equal where elements (or their keys) are; the functions
decide which elements stay, by these numbers, and the new values are made of them in one go.

| function | elements are equal | add | retract |
| --- | --- | --- | --- |
| `collect` | wholly | behind all others | takes away one equal element for each |
| `collect`, distinct | wholly | behind, if new | the same |
| `merge_map` | by key | replaces an equal one | takes away equal ones |
| `nested_update` | wholly | behind all others | takes away all equal ones |
| `nested_update` with `nested-key` | by that key | replaces an equal one | takes away equal ones |

Null values change nothing. Only keys from which something is taken back are folded step by step.

Source: `FieldListaggAgg`, `FieldCollectAgg`, `FieldMergeMapAgg`, `FieldNestedUpdateAgg` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.merge.equality import Codes, codes, equal_pairs
from paimon_engine.merge.gather import elements_at
from paimon_engine.merge.versions import Joined, LeftOut, Mask, Merged, Step, Versions
from paimon_engine.merge.window import Positions

_MANY: Final = 32
"""Searching takes so many times as long as counting, for each element."""
_JAVA_SPACES: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)
"""The characters for which `Character.isWhitespace` is true."""


def listagg(delimiter: str, *, distinct: bool = False) -> Callable[[Versions, str], pa.Array]:
    """The function that joins a key's texts, oldest first.

    With `distinct` the texts are joined lists themselves: of all but the first one, parts that exist already or
    blank are left out. Blank texts do not count then, as in release 2.0; 1.4 leaves out only what is empty.
    """

    def joined(versions: Versions, column: str) -> pa.Array:
        counted = lowest_first(versions.only(versions.valid(column)))
        if distinct:
            counted = counted.only(~_is_blank(counted.values(column)))
        texts, counts = counted.values(column), counted.ends - counted.starts
        some = counts > 0
        if distinct:
            texts, counts = _distinct_parts(counted, texts, delimiter)
        return pc.binary_join(_lists(pa.list_(texts.type), texts, counts, some), delimiter)

    return joined


def _is_blank(texts: pa.Array) -> Mask:
    return np.asarray(pc.equal(pc.utf8_trim(texts, characters=_JAVA_SPACES), ""))


def _distinct_parts(versions: Versions, texts: pa.Array, delimiter: str) -> tuple[pa.Array, Positions]:
    """Parts of the texts that stay, in order, and how many there are per key."""
    if not len(texts):
        return texts, np.zeros(len(versions.starts), dtype=np.int64)
    # Java splits at spaces where texts are joined without a delimiter.
    split = pc.split_pattern(texts, delimiter or " ")
    lengths, parts = np.diff(np.asarray(split.offsets)), split.flatten()
    owner = np.repeat(np.arange(len(texts)), lengths)
    numbers, keys = codes(parts), versions.keys[owner]
    new = np.zeros(len(parts), dtype=bool)
    new[np.unique(keys * (int(numbers.max()) + 1) + numbers, return_index=True)[1]] = True
    # The first text of a key is kept completely, whatever its parts.
    whole = (np.arange(len(texts)) == versions.starts[versions.keys])[owner]
    begins = np.append(True, owner[1:] != owner[:-1])
    kept = np.where(whole, begins, new & ~_is_blank(parts))
    indices = np.where(whole, len(parts) + owner, np.arange(len(parts)))[kept]
    return pa.concat_arrays([parts, texts]).take(pa.array(indices)), np.bincount(
        keys[kept], minlength=len(versions.starts)
    )


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a column's values: element i belongs to row `row[i]` of the versions, ascending."""

    entries: pa.Array
    codes: Codes
    row: Positions


class ListFunction:
    """An aggregate function over lists: comparison of elements, and the table above."""

    def __init__(
        self, *, replaces: bool = False, distinct: bool = False, takes_all: bool = True, reorders: bool = True
    ) -> None:
        """What an element does to an equal one, how many of these a retract takes, and whether below means first."""
        self.replaces = replaces
        self.distinct = distinct
        self.takes_all = takes_all
        self.reorders = reorders

    def compared(self, entries: pa.Array) -> pa.Array:
        """What elements of lists, or entries of maps, are compared by."""
        return entries

    def entries(self, values: pa.Array) -> tuple[pa.Array, Positions]:
        """Elements of lists, or entries of maps, of which none is null, and the value of each."""
        return entries_of(values)

    def __call__(self, versions: Versions, column: str) -> Merged:
        """The list of each key."""
        counted = versions.only(versions.valid(column))
        if not len(counted):
            return np.full(len(counted.starts), -1)
        if self.needs_fold(counted):
            return self._step_by_step(counted, column)
        return self.merged(lowest_first(counted) if self.reorders else counted, column)

    def needs_fold(self, versions: Versions) -> bool:
        """Whether the elements that stay must be found step by step."""
        return bool(versions.retracts.any())

    def merged(self, versions: Versions, column: str) -> Merged:
        """The list of each key where nothing is taken back."""
        if not (self.replaces or self.distinct):
            return Joined(versions)
        lists = versions.rows[column]
        indices, offsets = elements_at(lists, versions.positions)
        elements = pc.take(self.compared(lists.values), pa.array(indices), boundscheck=False)
        lengths = offsets[versions.ends] - offsets[versions.starts]
        keys, older, newer = equal_pairs(lengths, codes(elements))
        left_out = newer
        if self.replaces:
            # A list without another one is not changed.
            meets = (versions.ends - versions.starts > 1)[keys]
            keys, left_out = keys[meets], older[meets]
        owners = _owners(offsets, left_out)
        return Joined(versions, LeftOut(keys, owners, left_out - offsets[owners]))

    def _step_by_step(self, versions: Versions, column: str) -> pa.Array:
        values = versions.values(column)
        entries, row = self.entries(values)
        found = Elements(entries, codes(self.compared(entries)), row)
        chosen = [self._folded(versions, found, key) for key in range(len(versions.starts))]
        some = np.array([members is not None for members in chosen])
        lengths = np.array([len(members or ()) for members in chosen])
        kept = np.array([index for members in chosen for index in members or ()], dtype=np.int64)
        return lists_of(found.entries, kept, lengths, some, values.type)

    def _folded(self, versions: Versions, found: Elements, key: int) -> Sequence[int] | None:
        """Indices of the elements of a key, step by step; None for null."""
        begin, end = int(versions.starts[key]), int(versions.ends[key])
        bounds = np.searchsorted(found.row, np.arange(begin, end + 1)).tolist()
        state: list[int] | None = None
        equal = found.codes
        for step, low, high in zip(versions.steps[begin:end].tolist(), bounds, bounds[1:], strict=False):
            members = list(range(low, high))
            if step == Step.RETRACT:
                state = None if state is None else self._without(self._united(state, equal), members, equal)
            elif state is None:
                state = self._united(members, equal) if self.distinct else members
            elif step == Step.ADD_BELOW and self.reorders:
                state = self._united([*members, *state], equal)
            else:
                state = self._united([*state, *members], equal)
        return state

    def _united(self, indices: Iterable[int], equal: Codes) -> list[int]:
        if self.replaces:
            return list({int(equal[index]): index for index in indices}.values())
        if self.distinct:
            first: dict[int, int] = {}
            for index in indices:
                first.setdefault(int(equal[index]), index)
            return list(first.values())
        return list(indices)

    def _without(self, state: list[int], members: Sequence[int], equal: Codes) -> list[int]:
        taken: dict[int, int] = {}
        for index in members:
            taken[int(equal[index])] = taken.get(int(equal[index]), 0) + 1
        if self.takes_all:
            return [index for index in state if int(equal[index]) not in taken]
        left = []
        for index in state:
            number = int(equal[index])
            if taken.get(number, 0):
                taken[number] -= 1
            else:
                left.append(index)
        return left


class Collect(ListFunction):
    """`collect`; with `distinct` equal elements stay once, in no particular order."""

    def __init__(self, *, distinct: bool, reorders: bool = False) -> None:
        """Lists of any elements; with `reorders` those from below come first, otherwise last."""
        super().__init__(distinct=distinct, takes_all=False, reorders=reorders)


class MergeMap(ListFunction):
    """`merge_map`: newer entries replace those of the same key."""

    def __init__(self) -> None:
        """Maps of any entries."""
        super().__init__(replaces=True)

    def compared(self, entries: pa.Array) -> pa.Array:
        """The keys."""
        return entries.field(0)


class PlainNestedUpdate(ListFunction):
    """`nested_update` of Paimon 0.9: rows are added, or replace those of the same nested key."""

    def __init__(self, nested_key: Sequence[str]) -> None:
        """Without a key no row is replaced."""
        super().__init__(replaces=bool(nested_key))
        self._nested_key = tuple(nested_key)

    def compared(self, entries: pa.Array) -> pa.Array:
        """The nested keys, or complete rows."""
        return key_fields(entries, self._nested_key)


def key_fields(rows: pa.Array, names: Sequence[str]) -> pa.Array:
    """Those fields of rows, whether or not the rows are null; without names the rows."""
    if not names:
        return rows
    fields = [rows.field(name) for name in names]
    return fields[0] if len(fields) == 1 else pa.StructArray.from_arrays(fields, names)


def entries_of(values: pa.Array) -> tuple[pa.Array, Positions]:
    """Elements of lists, or entries of maps, of which none is null, and the value of each."""
    offsets = np.asarray(values.offsets)
    owner = np.repeat(np.arange(len(values)), np.diff(offsets))
    return values.values.slice(offsets[0], offsets[-1] - offsets[0]), owner


def _owners(offsets: npt.NDArray[np.int32], elements: Positions) -> Positions:
    """Which lists those elements belong to."""
    if len(elements) * _MANY < len(offsets):
        return np.searchsorted(offsets, elements, side="right") - 1
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[elements]


def lowest_first(versions: Versions) -> Versions:
    """Adds in the order of the values: those from lower levels come later, the deepest last."""
    below = versions.steps == Step.ADD_BELOW
    if not below.any():
        return versions
    numbers = np.arange(len(versions))
    order = np.lexsort([np.where(below, -numbers - 1, numbers), versions.keys])
    steps = np.full(len(versions), Step.ADD, dtype=np.int8)
    return Versions(versions.rows, versions.positions[order], versions.starts, versions.ends, steps)


def lists_of(
    entries: pa.Array,
    kept: Positions,
    lengths: Positions,
    some: Mask,
    arrow_type: pa.DataType,
) -> pa.Array:
    """Lists or maps of those elements, which are in order; null where a key has no list."""
    return _lists(arrow_type, entries.take(pa.array(kept)), lengths, some)


def _lists(arrow_type: pa.DataType, elements: pa.Array, lengths: Positions, some: Mask) -> pa.Array:
    """Lists or maps of so many elements each, of which there are some, the others null."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    bits = None if some.all() else pa.py_buffer(np.packbits(some, bitorder="little"))
    return pa.Array.from_buffers(arrow_type, len(some), [bits, pa.py_buffer(offsets)], children=[elements])
