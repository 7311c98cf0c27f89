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
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.merge.equality import Codes, codes, joined_codes
from paimon_engine.merge.versions import Mask, Step, Versions
from paimon_engine.merge.window import Positions

_NO_CODES: Final = np.zeros(0, dtype=np.int64)
_JAVA_SPACES: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)
"""What `Character.isWhitespace` holds for."""


def listagg(delimiter: str, *, distinct: bool = False) -> Callable[[Versions, str], pa.Array]:
    """The function that joins a key's texts, oldest first.

    With `distinct` the texts are joined lists themselves: of all but the first one, parts that are there already or
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
        lists = pa.ListArray.from_arrays(_offsets(counts), texts)
        return pc.if_else(pa.array(some), pc.binary_join(lists, delimiter), pa.scalar(None, texts.type))

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
    # The first text of a key stays whole, whatever its parts.
    whole = (np.arange(len(texts)) == versions.starts[versions.keys])[owner]
    begins = np.append(True, owner[1:] != owner[:-1])
    kept = np.where(whole, begins, new & ~_is_blank(parts))
    places = np.where(whole, len(parts) + owner, np.arange(len(parts)))[kept]
    return pa.concat_arrays([parts, texts]).take(pa.array(places)), np.bincount(
        keys[kept], minlength=len(versions.starts)
    )


Entries: TypeAlias = pa.Array | tuple[pa.Array, pa.Array]
"""Elements of lists, or keys and values of maps."""


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a column's values: element i belongs to row `row[i]` of the versions, ascending."""

    entries: Entries

    codes: Codes
    """Empty where nobody compares elements."""
    row: Positions


class ListFunction:
    """An aggregate function over lists: shape and comparison of elements, and the table above."""

    def __init__(
        self, *, replaces: bool = False, distinct: bool = False, takes_all: bool = True, reorders: bool = True
    ) -> None:
        """What an element does to an equal one, how many of these a retract takes, and whether below means first."""
        self.replaces = replaces
        self.distinct = distinct
        self.takes_all = takes_all
        self.reorders = reorders

    def entries(self, values: pa.Array) -> tuple[Entries, Positions]:
        """Elements of values without nulls, and the value of each."""
        offsets = np.asarray(values.offsets)
        owner = np.repeat(np.arange(len(values)), np.diff(offsets))
        return values.values.slice(offsets[0], offsets[-1] - offsets[0]), owner

    def _codes(self, entries: Entries) -> Codes:
        return codes(entries)

    def __call__(self, versions: Versions, column: str) -> pa.Array:
        """The list of each key."""
        counted = versions.only(versions.valid(column))
        folds = self.folds(counted)
        if self.reorders and not folds:
            counted = lowest_first(counted)
        some = counted.ends > counted.starts
        if not some.any():
            return pa.nulls(len(some), versions.rows[column].type)
        values = counted.values(column)
        entries, row = self.entries(values)
        is_compared = folds or self.replaces or self.distinct
        found = Elements(entries, self._codes(entries) if is_compared else _NO_CODES, row)
        if folds:
            chosen = [self._folded(counted, found, key) for key in range(len(some))]
            some = np.array([members is not None for members in chosen])
            lengths = np.array([len(members or ()) for members in chosen])
            kept = np.array([place for members in chosen for place in members or ()], dtype=np.int64)
        else:
            kept = self._kept(counted, found)
            lengths = np.bincount(counted.keys[found.row[kept]], minlength=len(some))
        return lists_of(found.entries, kept, lengths, some, values.type)

    def folds(self, versions: Versions) -> bool:
        """Whether the elements that stay must be found step by step."""
        return bool(versions.retracts.any())

    def _kept(self, versions: Versions, found: Elements) -> Positions:
        """Which elements stay where nothing is taken back, ascending."""
        everything = np.arange(len(found.row))
        if not (self.replaces or self.distinct) or not len(everything):
            return everything
        keys = versions.keys[found.row]
        numbers = keys * (int(found.codes.max()) + 1) + found.codes
        if not self.replaces:
            return np.sort(np.unique(numbers, return_index=True)[1])
        last = len(everything) - 1 - np.unique(numbers[::-1], return_index=True)[1]
        stays = np.zeros(len(everything), dtype=bool)
        stays[last] = True
        # A list that meets no other one stays as it is.
        alone = (versions.ends - versions.starts == 1)[keys]
        return np.flatnonzero(stays | alone)

    def _folded(self, versions: Versions, found: Elements, key: int) -> Sequence[int] | None:
        """Places of the elements of a key, step by step; None for null."""
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

    def _united(self, places: Iterable[int], equal: Codes) -> list[int]:
        if self.replaces:
            return list({int(equal[place]): place for place in places}.values())
        if self.distinct:
            first: dict[int, int] = {}
            for place in places:
                first.setdefault(int(equal[place]), place)
            return list(first.values())
        return list(places)

    def _without(self, state: list[int], members: Sequence[int], equal: Codes) -> list[int]:
        taken: dict[int, int] = {}
        for place in members:
            taken[int(equal[place])] = taken.get(int(equal[place]), 0) + 1
        if self.takes_all:
            return [place for place in state if int(equal[place]) not in taken]
        left = []
        for place in state:
            number = int(equal[place])
            if taken.get(number, 0):
                taken[number] -= 1
            else:
                left.append(place)
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

    def entries(self, values: pa.Array) -> tuple[Entries, Positions]:
        """Keys and values of the maps."""
        offsets = np.asarray(values.offsets)
        begin, count = offsets[0], offsets[-1] - offsets[0]
        owner = np.repeat(np.arange(len(values)), np.diff(offsets))
        return (values.keys.slice(begin, count), values.items.slice(begin, count)), owner

    def _codes(self, entries: Entries) -> Codes:
        return codes(entries[0])


class PlainNestedUpdate(ListFunction):
    """`nested_update` of Paimon 0.9: rows are added, or replace those of the same nested key."""

    def __init__(self, nested_key: Sequence[str]) -> None:
        """Without a key no row is replaced."""
        super().__init__(replaces=bool(nested_key))
        self._nested_key = tuple(nested_key)

    def _codes(self, entries: Entries) -> Codes:
        if not self._nested_key:
            return codes(entries)
        assert isinstance(entries, pa.StructArray)
        return joined_codes([codes(entries.field(name)) for name in self._nested_key], len(entries))


def lowest_first(versions: Versions) -> Versions:
    """Adds in the order in which their values lie: those from below came last the deeper they lie."""
    below = versions.steps == Step.ADD_BELOW
    if not below.any():
        return versions
    numbers = np.arange(len(versions))
    order = np.lexsort([np.where(below, -numbers - 1, numbers), versions.keys])
    steps = np.full(len(versions), Step.ADD, dtype=np.int8)
    return Versions(versions.rows, versions.positions[order], versions.starts, versions.ends, steps)


def _offsets(lengths: Any) -> pa.Array:
    return pa.array(np.append(0, np.cumsum(lengths)), pa.int32())


def lists_of(
    entries: Entries,
    kept: Positions,
    lengths: Positions,
    some: Mask,
    arrow_type: pa.DataType,
) -> pa.Array:
    """Lists or maps of those elements, which lie in order; null where a key has no list."""
    begins = np.append(0, np.cumsum(lengths))
    offsets = pa.array(begins, pa.int32(), mask=np.append(~some, False))
    places = pa.array(kept)
    if isinstance(entries, tuple):
        keys, items = entries
        return pa.MapArray.from_arrays(offsets, keys.take(places), items.take(places), type=arrow_type)
    return pa.ListArray.from_arrays(offsets, entries.take(places), type=arrow_type)
