"""A window: all loaded versions of some keys, in the order in which they happened.

`sort_window` sorts by key with a stable sort, which is fast because the rows come as a few sorted runs, and then
orders by sequence only the rows of keys that occur more than once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge.equality import joined_codes
from paimon_engine.merge.gather import validity
from paimon_engine.merge.key_order import order_keys
from paimon_engine.merge.keys import Keys
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND

Positions = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SequenceOrder:
    """What orders the versions of a key: user columns first (nulls oldest), then the sequence number.

    With `by_arrival` the caller guarantees that rows come oldest first, so that a stable sort by key is enough.
    """

    user_columns: tuple[str, ...] = ()
    descending: bool = False
    by_arrival: bool = False


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


def sort_window(rows: pa.RecordBatch, keys: Keys, sequence: SequenceOrder) -> Window:
    """Window of rows in any order; `keys[n]` belong to the rows."""
    order, first = order_keys(keys)
    starts = np.flatnonzero(first)
    if len(starts) < len(keys) and not (sequence.by_arrival and not sequence.user_columns):
        order = _by_sequence(rows, order, first, sequence)
    return Window(rows, order, starts)


def _by_sequence(
    rows: pa.RecordBatch, order: Positions, first: npt.NDArray[np.bool_], sequence: SequenceOrder
) -> Positions:
    """Reorders the rows of keys with several versions: user columns, sequence number, retract before add."""
    last = np.append(first[1:], True)
    indices = np.flatnonzero(~(first & last))
    members = order[indices]
    group = np.cumsum(first, dtype=np.int64)[indices]
    retract = is_retract(np.asarray(rows[VALUE_KIND])[members])
    arrival = 2 * np.asarray(rows[SEQUENCE_NUMBER])[members] + ~retract
    if sequence.user_columns:
        columns = [rows[name].take(pa.array(members)) for name in sequence.user_columns]
        ages = [ranks(column, descending=sequence.descending) for column in columns]
        # lexsort takes the least significant key first; the group comes last, so that groups stay where they are.
        by_age = np.lexsort([arrival, *reversed(ages), group])
    else:
        by_age = _sort_within(group, arrival)
    result = order.copy()
    result[indices] = members[by_age]
    return result


def _sort_within(group: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> Positions:
    """Positions that sort the values inside each group; groups are ascending."""
    low, high = int(values.min()), int(values.max())
    span = high - low + 1
    if int(group[-1] + 1) * span > np.iinfo(np.int64).max:
        return np.lexsort([values, group])
    # Measured on 400,000 rows: 74 million rows/s here, 4.5 with lexsort.
    return np.argsort(group * span + (values - low), kind="stable")


def ranks(column: pa.Array, *, descending: bool) -> npt.NDArray[np.int64]:
    """Rank of each value, above 0: nulls lowest, equal values alike; reversed where smaller is newer.

    Raises: UnsupportedError for maps, which have no order.
    """
    values = _ascending(column)
    valid = validity(column)
    return np.where(valid, -values if descending else values, np.iinfo(np.int64).min)


def _ascending(column: pa.Array) -> npt.NDArray[np.int64]:
    """Dense ranks of values, any number for nulls; lists compare element by element, rows field by field."""
    kind = column.type
    if pa.types.is_map(kind):
        raise UnsupportedError("maps have no order, so it is not known which version of a key is newer")
    if pa.types.is_struct(kind):
        return joined_codes([_lowest_null(column.field(i)) for i in range(kind.num_fields)], len(column)) + 1
    if pa.types.is_list(kind):
        # Lists are rare as an order of versions, so Python may compare them.
        elements, offsets = _lowest_null(column.values).tolist(), column.offsets.to_pylist()
        lists = [tuple(elements[begin:end]) for begin, end in pairwise(offsets)]
        indices = {members: rank for rank, members in enumerate(sorted({*lists}), start=1)}
        return np.array([indices[members] for members in lists], dtype=np.int64)
    return np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)


def _lowest_null(column: pa.Array) -> npt.NDArray[np.int64]:
    """Ranks with 0 for nulls."""
    return np.where(validity(column), _ascending(column), 0)


def is_retract(kinds: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Which row kinds take a row away: −U (1) and −D (3)."""
    return np.asarray(kinds.astype(np.int8) & 1, dtype=bool)
