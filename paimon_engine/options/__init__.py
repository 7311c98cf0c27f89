"""Table options as typed values: texts, then one class for each field, then all of them as `TableOptions`."""

from paimon_engine.options.table import POSTPONED_BUCKET, TableOptions

__all__ = ["POSTPONED_BUCKET", "TableOptions"]
