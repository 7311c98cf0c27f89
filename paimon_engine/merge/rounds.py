"""Merging the rounds of changelog runs, each as the Java library merges it when it reads changes of several snapshots.

A round has at most one record of a key from each run (`merge.repeated`). A key with three records in one run and one in
another has three rounds, and so three rows in the result: changes are not merged into one.

1. A record that is alone in its round is returned unchanged, whatever its kind.
2. If the table's levels include older versions, of the records from above level 0 only the newest one counts.
3. Retracts that the table ignores are left out; a round with no other records gives no row. (Java 0.9 gives a row
   without its key then, if the merge engine is partial-update.)
4. The remaining records are merged, even if it is one: only a record that was alone before rules 2 and 3 is exempt.

Source: `ReducerMergeFunctionWrapper`, `LookupMergeFunction` of the Java library.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.format.layout import cast_rows
from paimon_engine.merge.functions import MergeFunction
from paimon_engine.merge.records import LEVEL, is_retract
from paimon_engine.merge.window import Window, kept_rows
from paimon_engine.meta.schema import VALUE_KIND

_Marks = npt.NDArray[np.bool_]


def merge_rounds(
    window: Window, merge: MergeFunction, *, upper_is_complete: bool = False, ignores_retracts: bool = False
) -> pa.RecordBatch:
    """One row per round, in the order of the rounds; rows of the window are in order and have `LEVEL`.

    `merge` must also merge keys with a single version. With `upper_is_complete` a record above level 0 includes all
    older ones.
    """
    starts, count = window.starts, window.rows.num_rows
    rounds = np.zeros(count, dtype=np.intp)
    rounds[starts[1:]] = 1
    rounds = np.cumsum(rounds)
    lone = np.bincount(rounds, minlength=len(starts))[rounds] == 1
    kept = np.ones(count, dtype=bool)
    if upper_is_complete:
        kept &= ~_older_of_upper(np.asarray(window.rows[LEVEL]) > 0, rounds)
    if ignores_retracts:
        kept &= ~is_retract(np.asarray(window.rows[VALUE_KIND]))
    rows = window.rows.drop_columns([LEVEL])
    several = np.flatnonzero(kept & ~lone)
    lone_rows = rows.take(pa.array(np.flatnonzero(lone)))
    if not len(several):
        return lone_rows
    merged_rounds, begins = np.unique(rounds[several], return_index=True)
    merged = merge(Window(rows.take(pa.array(several)), None, begins))
    order = np.argsort(np.concatenate([rounds[lone], merged_rounds]), kind="stable")
    return pa.concat_batches([lone_rows, cast_rows(merged, lone_rows.schema)]).take(pa.array(order))


def without_older_of_upper(window: Window) -> Window:
    """The window, whose rows have `LEVEL`, with only the newest of the records above level 0 of each key."""
    rows = window.rows if window.order is None else window.rows.take(pa.array(window.order))
    keys = np.repeat(np.arange(len(window.starts)), window.ends - window.starts)
    older = _older_of_upper(np.asarray(rows[LEVEL]) > 0, keys)
    return kept_rows(Window(rows.drop_columns([LEVEL]), None, window.starts), ~older)


def _older_of_upper(upper: _Marks, rounds: npt.NDArray[np.intp]) -> _Marks:
    """Which records are from above level 0 and followed by another one of these in their round."""
    indices = np.flatnonzero(upper)
    followed = np.zeros(len(upper), dtype=bool)
    followed[indices[:-1]] = rounds[indices[:-1]] == rounds[indices[1:]]
    return followed
