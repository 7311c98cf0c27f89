"""deduplicate: the newest version of a key is its complete row.

A delete record that is the newest version is kept; a caller may drop it if no older version can exist.

Follows `merge-engine` = `deduplicate` in the Paimon documentation (primary-key-table/merge-engine).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import as_numbers, of_numbers
from paimon_engine.merge.window import Window, is_retract
from paimon_engine.meta.schema import VALUE_KIND


def deduplicate(window: Window) -> pa.RecordBatch:
    """Newest version per key: rows[n] → rows[k], in key order."""
    if len(window.starts) == window.rows.num_rows and window.order is None:
        return window.rows
    # Indices computed here need no bounds check.
    return pc.take(window.rows, of_numbers(window.newest, pa.int64()), boundscheck=False)


def drop_retracts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without −U and −D."""
    retracts = is_retract(as_numbers(rows[VALUE_KIND]))
    return rows.filter(pa.array(~retracts)) if retracts.any() else rows
