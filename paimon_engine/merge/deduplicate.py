"""deduplicate: the newest version of a key is its complete row.

A delete record that is the newest version is kept; a caller may drop it if no older version can exist.

Follows `merge-engine` = `deduplicate` in the Paimon documentation (primary-key-table/merge-engine).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import of_numbers
from paimon_engine.merge.window import Window


def deduplicate(window: Window) -> pa.RecordBatch:
    """Newest version per key: rows[n] → rows[k], in key order."""
    if len(window.starts) == window.rows.num_rows and window.order is None:
        return window.rows
    # Indices computed here need no bounds check.
    return pc.take(window.rows, of_numbers(window.newest, pa.int64()), boundscheck=False)
