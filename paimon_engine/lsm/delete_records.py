"""Whether a data file may have delete records, by its manifest entry."""

from __future__ import annotations

from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.options import TableOptions


def may_have_deletes(file: DataFile, options: TableOptions) -> bool:
    """Whether there may be delete records in a file of a keyed table."""
    return file.delete_row_count != 0 or _is_uncounted(file, options)


def only_rows_can_tell(file: DataFile, options: TableOptions) -> bool:
    """Whether the entry notes no delete record, and there may be some nevertheless."""
    return file.delete_row_count == 0 and _is_uncounted(file, options)


def _is_uncounted(file: DataFile, options: TableOptions) -> bool:
    """Whether the count of the entry proves nothing.

    Writers count delete records, but pypaimon notes zero where `rowkind.field` gives the kinds. Compactions count right
    in every engine.
    """
    return options.rowkind_field is not None and file.file_source != FileSource.COMPACT
