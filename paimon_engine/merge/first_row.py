"""first-row: the oldest version of a key is its complete row.

Follows `merge-engine` = `first-row` in the Paimon documentation (primary-key-table/merge-engine/first-row).
"""

from __future__ import annotations

import pyarrow as pa

from paimon_engine.arrow_values import as_numbers
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.records import is_retract
from paimon_engine.merge.window import Window
from paimon_engine.meta.schema import VALUE_KIND


def first_row(window: Window) -> pa.RecordBatch:
    """Oldest version per key: rows[n] → rows[k], in key order.

    Raises: InvalidArgumentError if a version takes a row back.
    """
    rows = window.rows
    if is_retract(as_numbers(rows[VALUE_KIND])).any():
        raise InvalidArgumentError(
            "'merge-engine' = 'first-row' takes inserts and updates, no -U or -D; set 'ignore-delete' = 'true' "
            "to drop these"
        )
    if len(window.starts) == rows.num_rows and window.order is None:
        return rows
    oldest = window.starts if window.order is None else window.order[window.starts]
    return rows.take(pa.array(oldest))
