"""The difference of two states: which keys came, went or changed.

Source: `IncrementalDiffSplitRead` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.merge.frontier import merge_runs
from paimon_engine.merge.window import SequenceOrder
from paimon_engine.meta.schema import VALUE_KIND
from paimon_engine.types import RowType

_IS_AFTER = "_IS_AFTER"
_DELETE = 3
GONE_BYTES_MAX: Final = 256 << 20
Mask = npt.NDArray[np.bool_]


def differences(
    before: Iterable[pa.RecordBatch],
    after: Iterable[pa.RecordBatch],
    key_type: RowType,
    sequence: SequenceOrder,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Rows of `after` that are new or differ in `columns`, and rows of keys that only `before` has, as −D.

    Both are sorted by key, with every key once and no delete records. A row of `after` is what the key has now, also
    where it is older than that of `before`, by `sequence`, as after an overwrite, whose numbers begin at zero.
    """
    runs = [_marked(before, is_after=False), _marked(after, is_after=True)]
    for window in merge_runs(runs, key_type, sequence):
        rows = window.rows if window.order is None else window.rows.take(pa.array(window.order))
        ends = np.append(window.starts, rows.num_rows)[1:]
        pairs = window.starts[ends - window.starts == 2]
        kept = np.ones(rows.num_rows, dtype=bool)
        if len(pairs):
            old, new = rows.take(pa.array(pairs)), rows.take(pa.array(pairs + 1))
            same = np.logical_and.reduce([equal_values(old[name], new[name]) for name in columns])
            is_newer = _mask(new[_IS_AFTER])
            kept[pairs] = ~same & ~is_newer
            kept[pairs + 1] = ~same & is_newer
        yield _with_kinds(rows.filter(pa.array(kept)))


def uncovered(
    changed: Iterable[pa.RecordBatch],
    beneath: Callable[[], Iterator[pa.RecordBatch]],
    key_type: RowType,
    sequence: SequenceOrder,
) -> Iterator[pa.RecordBatch]:
    """Differences, where a key that went has the row `beneath`, if there is one: it is seen again.

    What is beneath has the columns and the order of the states, and is read only if keys went: once for those of 256
    MiB.
    """
    gone: list[pa.RecordBatch] = []
    gone_bytes = 0
    for rows in changed:
        went = np.asarray(rows[VALUE_KIND]) == _DELETE
        if not went.any():
            yield rows
            continue
        yield rows.filter(pa.array(~went))
        gone.append(rows.filter(pa.array(went)))
        gone_bytes += gone[-1].nbytes
        if gone_bytes > GONE_BYTES_MAX:
            yield from _uncovered(gone, beneath(), key_type, sequence)
            gone, gone_bytes = [], 0
    if gone:
        yield from _uncovered(gone, beneath(), key_type, sequence)


def _uncovered(
    gone: Iterable[pa.RecordBatch], beneath: Iterable[pa.RecordBatch], key_type: RowType, sequence: SequenceOrder
) -> Iterator[pa.RecordBatch]:
    runs = [_marked(gone, is_after=False), _marked(beneath, is_after=True)]
    for window in merge_runs(runs, key_type, sequence):
        rows = window.rows if window.order is None else window.rows.take(pa.array(window.order))
        versions = np.diff(np.append(window.starts, rows.num_rows))
        is_of_both = np.repeat(versions == 2, versions)
        kept = _mask(rows[_IS_AFTER]) == is_of_both
        yield rows.filter(pa.array(kept)).drop_columns([_IS_AFTER])


def _marked(batches: Iterable[pa.RecordBatch], *, is_after: bool) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        if rows.num_rows:
            yield rows.append_column(_IS_AFTER, pa.repeat(is_after, rows.num_rows))


def _with_kinds(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that are only in the older state become delete records."""
    kinds = pc.if_else(rows[_IS_AFTER], rows[VALUE_KIND], pa.scalar(_DELETE, pa.int8()))
    index = rows.schema.get_field_index(VALUE_KIND)
    return rows.set_column(index, rows.schema.field(index), kinds).drop_columns([_IS_AFTER])


def equal_values(left: pa.Array, right: pa.Array) -> Mask:
    """Which values are the same, two nulls included; floating-point numbers by their bits."""
    kind = left.type
    if pa.types.is_fixed_size_list(kind):
        lists = pa.list_(kind.value_field)
        return equal_values(left.cast(lists), right.cast(lists))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _equal_lists(left, right)
    valid, other_valid = _valid(left), _valid(right)
    if pa.types.is_struct(kind):
        same = np.ones(len(left), dtype=bool)
        for i in range(kind.num_fields):
            same &= equal_values(left.field(i), right.field(i))
    else:
        if pa.types.is_floating(kind):
            bits = pa.int32() if pa.types.is_float32(kind) else pa.int64()
            left, right = left.view(bits), right.view(bits)
        same = _mask(pc.fill_null(pc.equal(left, right), False))
    both: Mask = valid & other_valid
    neither: Mask = ~valid & ~other_valid
    return (both & same) | neither


def _valid(array: pa.Array) -> Mask:
    return _mask(array.is_valid())


def _mask(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def _equal_lists(left: pa.Array, right: pa.Array) -> Mask:
    """Lists of one length whose elements agree; maps are lists of their entries, in the order of storage."""
    lengths, other_lengths = _lengths(left), _lengths(right)
    same: Mask = lengths == other_lengths
    compared = np.flatnonzero(same & (lengths > 0))
    if not len(compared):
        return same
    chosen = pa.array(compared)
    inner = equal_values(_elements(left.take(chosen)), _elements(right.take(chosen)))
    starts = np.cumsum(np.append(0, lengths[compared]))[:-1]
    same[compared] = np.logical_and.reduceat(inner, starts)
    return same


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """Length of each list, −1 for null."""
    offsets = np.asarray(array.offsets)
    return np.where(_valid(array), np.diff(offsets), -1).astype(np.int64)


def _elements(array: pa.Array) -> pa.Array:
    """All elements of lists without nulls, as structs for maps."""
    if pa.types.is_map(array.type):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        return pairs.slice(begin, end - begin)
    return array.flatten()
