"""Which function merges the versions of a key, by the table's options."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from paimon_engine.errors import UnsupportedError
from paimon_engine.merge.deduplicate import deduplicate
from paimon_engine.merge.window import SequenceOrder, Window
from paimon_engine.options import TableOptions

MergeFunction = Callable[[Window], pa.RecordBatch]
"""Window → one row per key, in key order, with the columns of the window's rows.

Law: merging all versions at once gives the same as merging the results of merging parts of them, oldest part first.
A function does not know levels, and never drops a delete record on its own.
"""


def merge_function(options: TableOptions) -> MergeFunction:
    """The function of the table's merge engine.

    Raises: UnsupportedError.
    """
    if options.merge_engine != "deduplicate":
        raise UnsupportedError(f"'merge-engine' = '{options.merge_engine}' is not supported yet")
    return deduplicate


def sequence_order(options: TableOptions) -> SequenceOrder:
    """What orders the versions of a key in this table."""
    return SequenceOrder(options.sequence_fields, options.sequence_descending)
