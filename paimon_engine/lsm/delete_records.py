"""Whether a data file may have delete records, by its manifest entry."""

from __future__ import annotations

from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.options import TableOptions


def may_have_deletes(file: DataFile, options: TableOptions) -> bool:
    """Whether there may be delete records in a file of a keyed table.

    Writers count them in the manifest entry. pypaimon counts none where `rowkind.field` gives the kinds, so that its
    zero proves nothing there. Compactions count right in every engine.
    """
    miscounts = options.rowkind_field is not None and file.file_source != FileSource.COMPACT
    return file.delete_row_count != 0 or miscounts
