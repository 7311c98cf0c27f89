"""Many Avro records of one schema as columns of numbers and of offsets in their bytes, without an object per record.

Blocks of Avro containers can be decoded apart from each other, so all of them are decoded side by side: one step of
NumPy reads one field of one record in every block. For manifests of 100,000 files that took a ninth of the time of a
decoder that makes dictionaries (measured).

This reads what writers usually write. Whatever is unusual raises `NotPlain`, and is left to the decoder that looks at
records one by one and reports what is wrong: nothing is refused here, and nothing damaged is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from paimon_engine.format.byte_spans import bytes_at

Ints = NDArray[np.int64]
Arrays = list[NDArray[Any]]

_PADDING: Final = 16
_LIST_SLACK: Final = 64
"""Items that a list may have beyond eight times the mean: steps are taken for the longest list of all blocks."""
_AHEAD_MAX: Final = 1 << 21
"""Items of all lists that are decoded in one step, which takes 16 bytes of memory for each."""
_ENDS: Final = ""
"""The name of the column of the records' ends, which no field has."""
_CONTINUES: Final = np.uint64(0x8080808080808080)


class NotPlain(Exception):  # noqa: N818 - not an error: another reader must read the bytes
    """These bytes are left to the decoder that looks at records one by one."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of records, in their order, over the bytes of their blocks.

    A column of numbers has its values by its path, as in `_FILE._LEVEL`. Texts, bytes and lists have where they begin
    and end in `data`, by path and `.begin`, `.end`; a list is as in the file, counts included. Columns that may be
    null have `.present` too; where they are null, the others are zero. `ends` is where each record ends in `data`: the
    next one of its block begins there.
    """

    data: bytes
    count: int
    arrays: Mapping[str, NDArray[Any]]
    ends: Ints


class _Node(Protocol):
    """Reads one value per block: behind the positions, the next ones, and arrays by the node's names."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def read(self, data: _Data, at: Ints) -> tuple[Ints, Arrays]: ...


class _Data:
    """The bytes of all blocks, and numbers anywhere in them."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        sizes = np.array([len(block) for block in blocks], np.int64)
        self.ends = np.cumsum(sizes)
        self.starts = self.ends - sizes
        self.bytes = b"".join([*blocks, bytes(_PADDING)])
        self.array = np.frombuffer(self.bytes, np.uint8)
        self._last = len(self.bytes) - 8
        # A number of eight bytes at every byte.
        self._words = np.ndarray((self._last + 1,), "<u8", self.bytes, strides=(1,))
        self.limits = self.ends

    def first_bytes(self, at: Ints) -> NDArray[np.uint8]:
        return self.array.take(at, mode="clip")

    def integers(self, at: Ints) -> tuple[Ints, Ints]:
        """Numbers at these positions, and the positions behind them. Raises: NotPlain for those of 56 bits and more."""
        first = self.first_bytes(at)
        if not (first & 0x80).any():
            small = first.astype(np.int64)
            return (small >> 1) ^ -(small & 1), at + 1
        words = self._words[np.minimum(at, self._last)]
        ends = ~words & _CONTINUES
        if not ends.all():
            raise NotPlain("a number of more than eight bytes")
        below = (ends & (~ends + np.uint64(1))) - np.uint64(1)
        size = (np.bitwise_count(below) >> 3).astype(np.int64) + 1
        seven = words & below & ~_CONTINUES
        seven = (seven & np.uint64(0x007F007F007F007F)) | ((seven & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
        seven = (seven & np.uint64(0x00003FFF00003FFF)) | ((seven & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
        seven = (seven & np.uint64(0x000000000FFFFFFF)) | ((seven & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
        value = seven.astype(np.int64)
        return (value >> 1) ^ -(value & 1), at + size

    def behind_bytes(self, at: Ints) -> tuple[Ints, Ints]:
        """Where texts or bytes at these positions begin and end. Raises: NotPlain for offsets outside of a block."""
        size, begin = self.integers(at)
        end = begin + size
        if (size < 0).any() or (end > len(self.bytes)).any():
            raise NotPlain("bytes that are not there")
        return begin, end


@dataclass(frozen=True, slots=True)
class _Integer:
    names: tuple[str, ...]

    def read(self, data: _Data, at: Ints) -> tuple[Ints, Arrays]:
        value, behind = data.integers(at)
        return behind, [value]


@dataclass(frozen=True, slots=True)
class _Bytes:
    names: tuple[str, ...]

    def read(self, data: _Data, at: Ints) -> tuple[Ints, Arrays]:
        begin, end = data.behind_bytes(at)
        return end, [begin, end]


@dataclass(frozen=True, slots=True)
class _Record:
    names: tuple[str, ...]
    fields: tuple[_Node, ...]

    def read(self, data: _Data, at: Ints) -> tuple[Ints, Arrays]:
        arrays: Arrays = []
        for field in self.fields:
            at, found = field.read(data, at)
            arrays += found
        return at, arrays


@dataclass(frozen=True, slots=True)
class _Nullable:
    names: tuple[str, ...]
    value: _Node

    def read(self, data: _Data, at: Ints) -> tuple[Ints, Arrays]:
        branch, behind = data.integers(at)
        if ((branch < 0) | (branch > 1)).any():
            raise NotPlain("a branch that there is not")
        present = branch.astype(bool)
        if present.all():
            behind, found = self.value.read(data, behind)
            return behind, [present, *found]
        arrays: Arrays = [np.zeros(len(at), bool if name.endswith(".present") else np.int64) for name in self.names[1:]]
        if present.any():
            [who] = present.nonzero()
            there, found = self.value.read(data, behind[who])
            behind[who] = there
            for array, part in zip(arrays, found, strict=True):
                array[who] = part
        return behind, [present, *arrays]


@dataclass(frozen=True, slots=True)
class _List:
    """A list of one block of items; its offset is that of the number of items."""

    names: tuple[str, ...]
    item: _Node

    def read(self, data: _Data, at: Ints) -> tuple[Ints, Arrays]:
        count, begin = data.integers(at)
        if not count.any():
            return begin, [at, begin]
        most = int(count.max())
        if (count < 0).any() or most > _LIST_SLACK + 8 * float(count.mean()):
            raise NotPlain("lists of very different sizes")
        looks_ahead = isinstance(self.item, _Nullable) and most * len(at) <= _AHEAD_MAX
        behind = _behind_small_counts(data, begin, most) if looks_ahead else None
        todo = np.ones(len(at), bool) if behind is None else (count != most) | (behind < 0)
        end = begin if behind is None else np.where(todo, begin, behind)
        if todo.any():
            [who] = todo.nonzero()
            end = end.copy()
            end[who] = self._behind_items(data, begin[who], count[who])
        return end, [at, end]

    def _behind_items(self, data: _Data, at: Ints, count: Ints) -> Ints:
        at = at.copy()
        for number in range(int(count.max())):
            [who] = (count > number).nonzero()
            at[who] = self.item.read(data, at[who])[0]
        # The empty block that ends the list; an empty list is that block.
        [who] = (count > 0).nonzero()
        last, behind = data.integers(at[who])
        if last.any():
            raise NotPlain("a list in several parts")
        at[who] = behind
        return at


def _behind_small_counts(data: _Data, begin: Ints, count: int) -> Ints:
    """The positions behind so many optional numbers that are all there and take a byte each; −1 where they do not."""
    width = 2 * count + 1
    last = len(data.bytes) - width
    if last < 0:
        return np.full(len(begin), -1)
    seen = bytes_at(data.bytes, np.minimum(begin, last), width)
    fits = (seen[:, 0:-1:2] == 2).all(axis=1) & (seen[:, 1:-1:2] < 0x80).all(axis=1) & (seen[:, -1] == 0)
    return np.where(fits & (begin <= last), begin + width, -1)


_INTEGERS: Final = ("int", "long")
_TEXTS: Final = ("bytes", "string")


def _node(schema: Any, path: str) -> _Node:
    """The reader of values of an Avro type; `path` begins the names of the columns that it returns.

    Raises: NotPlain for a type that manifests do not have, so that the reader of entries takes over.
    """
    match schema:
        case "int" | "long" | {"type": "int" | "long"}:
            return _Integer((path,))
        case "bytes" | "string":
            return _Bytes((f"{path}.begin", f"{path}.end"))
        case ["null", value]:
            inner = _node(value, path)
            return _Nullable((f"{path}.present", *inner.names), inner)
        case {"type": "array", "items": item}:
            return _List((f"{path}.begin", f"{path}.end"), _node(item, ""))
        case {"type": "record", "fields": fields}:
            prefix = f"{path}." if path else ""
            parts = tuple(_node(field["type"], prefix + field["name"]) for field in fields)
            return _Record(tuple(name for part in parts for name in part.names), parts)
        case _:
            raise NotPlain(f"type {schema!r}")


@lru_cache(maxsize=64)
def _reader(schema: bytes) -> _Node:
    found = json.loads(schema)
    if not isinstance(found, dict) or found.get("type") != "record":
        raise NotPlain("records that are none")
    return _node(found, "")


def columns_of(schema: bytes, blocks: Sequence[tuple[int, bytes]]) -> Columns:
    """Records of blocks, in order, as columns; `schema` is the text of their schema.

    Raises: NotPlain.
    """
    node = _reader(schema)
    counts = np.array([count for count, _ in blocks], np.int64)
    data = _Data([block for _, block in blocks])
    if ((counts < 0) | (counts > data.ends - data.starts)).any():
        raise NotPlain("more records than bytes")
    # The blocks with most records first, so that those with a further one are always the first so many.
    order = np.argsort(-counts, kind="stable")
    left, at, limits = counts[order], data.starts[order], data.ends[order]
    firsts = (np.cumsum(counts) - counts)[order]
    found: list[Arrays] = []
    positions: list[Ints] = []
    for number in range(int(counts.max(initial=0))):
        active = int(np.searchsorted(-left, -number, side="left"))
        at, limits = at[:active], limits[:active]
        at, arrays = node.read(data, at)
        if (at > limits).any():
            raise NotPlain("a record that continues after its block")
        found.append([at, *arrays])
        positions.append(firsts[:active] + number)
        ended = left[:active] == number + 1
        if (at[ended] != limits[ended]).any():
            raise NotPlain("bytes behind the last record of a block")
    total = int(counts.sum())
    arrays_of = _in_order((_ENDS, *node.names), found, positions, total)
    return Columns(data.bytes, total, arrays_of, arrays_of.pop(_ENDS))


def _in_order(names: Sequence[str], found: list[Arrays], positions: list[Ints], total: int) -> dict[str, NDArray[Any]]:
    """The arrays of all steps, each record at its place."""
    if not found:
        return {name: np.zeros(0, np.int64) for name in names}
    arrays = {}
    for index, name in enumerate(names):
        arrays[name] = np.empty(total, found[0][index].dtype)
        for step, position in zip(found, positions, strict=True):
            arrays[name][position] = step[index]
    return arrays
