"""A window: all loaded versions of some keys, ordered by key, and oldest first within a key.

`sort_window` sorts by key (`key_order`), and then orders by sequence only the rows of keys that occur more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import as_numbers
from paimon_engine.errors import UnsupportedError
from paimon_engine.merge.equality import joined_codes
from paimon_engine.merge.gather import validity
from paimon_engine.merge.key_order import order_keys
from paimon_engine.merge.keys import Keys
from paimon_engine.merge.records import is_retract
from paimon_engine.merge.ties import RunRows, Ties
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND

Positions = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SequenceOrder:
    """What orders the versions of a key: user columns first (nulls oldest), then the sequence number.

    With `descending` the smaller value of a user column is the newer one. With `by_arrival` the caller guarantees that
    the rows of each key come in order of sequence number, so that without user columns a stable sort by key is enough.
    With `has_ties` rows of a key may have equal sequences in several runs, which come in the order of `lsm.sections`.
    """

    user_columns: tuple[str, ...] = ()
    descending: bool = False
    by_arrival: bool = False
    has_ties: bool = False

    @property
    def is_arrival(self) -> bool:
        """Whether the order in which rows come is all that counts."""
        return self.by_arrival and not self.user_columns


@dataclass(frozen=True, slots=True)
class Window:
    """`order` holds positions in `rows`, by key and oldest first within a key; None: rows are in that order already.

    `starts[k]` is where key k begins in that order, ascending from 0.
    """

    rows: pa.RecordBatch
    order: Positions | None
    starts: Positions

    @property
    def newest(self) -> Positions:
        """Positions in `rows` of the newest version of each key."""
        last = self.ends - 1
        return last if self.order is None else self.order[last]

    @property
    def ends(self) -> Positions:
        """Where each key ends in that order."""
        return np.append(self.starts[1:], self.rows.num_rows) if len(self.starts) else self.starts


def one_version_per_key(rows: pa.RecordBatch) -> Window:
    """Window of sorted rows whose keys all differ."""
    return Window(rows, None, np.arange(rows.num_rows))


def kept_rows(window: Window, kept: npt.NDArray[np.bool_]) -> Window:
    """A window, whose rows are in order, with some of them; keys of which none is left are left out."""
    if kept.all():
        return window
    keys = np.repeat(np.arange(len(window.starts)), window.ends - window.starts)[kept]
    return Window(window.rows.filter(pa.array(kept)), None, np.flatnonzero(np.diff(keys, prepend=-1)))


def sort_window(
    rows: pa.RecordBatch,
    keys: Keys,
    sequence: SequenceOrder,
    ties: Ties | None = None,
    parts: Sequence[RunRows] = (),
) -> Window:
    """Window of rows in any order; keys[n] is the key of row n. `ties` orders equal sequences of the runs in `parts`.

    Raises: UnsupportedError if a user column is a map, which has no order.
    """
    order, is_first = order_keys(keys)
    starts = np.flatnonzero(is_first)
    equal = np.zeros(len(keys), np.bool_)
    if len(starts) < len(keys) and not sequence.is_arrival:
        order, equal = _by_sequence(rows, order, is_first, sequence)
    if ties is not None:
        order = ties.settled(order, starts, equal, parts)
    return Window(rows, order, starts)


def _by_sequence(
    rows: pa.RecordBatch, order: Positions, is_first: npt.NDArray[np.bool_], sequence: SequenceOrder
) -> tuple[Positions, npt.NDArray[np.bool_]]:
    """Puts the rows of keys with several versions in order: user columns, sequence number, retract before add.

    `order` is by key already; is_first[n] is whether a key begins at its index n. The second result says of each row in
    order whether key and sequence are those of the row before; where such ties are looked for, no kind decides.
    """
    last = np.append(is_first[1:], True)
    indices = np.flatnonzero(~(is_first & last))
    members = order[indices]
    group = np.cumsum(is_first, dtype=np.int64)[indices]
    number = as_numbers(rows[SEQUENCE_NUMBER])[members]
    if not sequence.has_ties:
        number = 2 * number + ~is_retract(as_numbers(rows[VALUE_KIND])[members])
    ages: list[npt.NDArray[np.int64]] = []
    if sequence.user_columns:
        columns = [rows[name].take(pa.array(members)) for name in sequence.user_columns]
        ages = [ranks(column, descending=sequence.descending) for column in columns]
        # lexsort takes the least significant key first; the group comes last, so that groups stay where they are.
        by_age = np.lexsort([number, *reversed(ages), group])
    else:
        by_age = _sort_within(group, number)
    result, equal = order.copy(), np.zeros(len(order), np.bool_)
    result[indices] = members[by_age]
    if sequence.has_ties:
        equal[indices[1:]] = np.all([values[by_age][1:] == values[by_age][:-1] for values in (group, *ages, number)], 0)
    return result, equal


def _sort_within(group: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> Positions:
    """Positions that sort the values inside each group; groups are ascending."""
    low, high = int(values.min()), int(values.max())
    span = high - low + 1
    if int(group[-1] + 1) * span > np.iinfo(np.int64).max:
        return np.lexsort([values, group])
    # Measured on 400,000 rows: 74 million rows/s here, 4.5 with lexsort.
    return np.argsort(group * span + (values - low), kind="stable")


def ranks(column: pa.Array, *, descending: bool) -> npt.NDArray[np.int64]:
    """Rank of each value, equal values alike: from 1 on, or negated where smaller is newer; nulls are below all others.

    Of numbers with a point −0.0 is below 0.0, and NaN above all.

    Raises: UnsupportedError for maps, which have no order.
    """
    values = _dense_ranks(column)
    valid = validity(column)
    return np.where(valid, -values if descending else values, np.iinfo(np.int64).min)


def _dense_ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    """Ranks of values from 1 on, any number for nulls; lists compare element by element, structs field by field."""
    data_type = column.type
    if pa.types.is_map(data_type):
        raise UnsupportedError("maps have no order, so it is not known which version of a key is newer")
    if pa.types.is_struct(data_type):
        return joined_codes([_ranks_with_nulls(column.field(i)) for i in range(data_type.num_fields)], len(column)) + 1
    if pa.types.is_list(data_type):
        # Lists are rare as an order of versions, so Python may compare them.
        elements, offsets = _ranks_with_nulls(column.values).tolist(), column.offsets.to_pylist()
        lists = [tuple(elements[begin:end]) for begin, end in pairwise(offsets)]
        rank_of = {one: rank for rank, one in enumerate(sorted({*lists}), start=1)}
        return np.array([rank_of[one] for one in lists], dtype=np.int64)
    found = np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    if pa.types.is_floating(data_type):
        # To Arrow both zeros are equal. To Java −0.0 is the smaller one, as in the sort of a writer.
        numbers = np.asarray(column.fill_null(0))
        found = 2 * found - ((numbers == 0) & np.signbit(numbers))
    return found


def _ranks_with_nulls(column: pa.Array) -> npt.NDArray[np.int64]:
    """Ranks from 1 on, 0 for nulls."""
    return np.where(validity(column), _dense_ranks(column), 0)
