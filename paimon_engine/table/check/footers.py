"""Do the footers of Parquet files match their manifest, and the memory limits of a reader?"""

from __future__ import annotations

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.format.parquet import footer
from paimon_engine.format.parquet_page_sizes import check_page_sizes
from paimon_engine.table.files.external import store_of
from paimon_engine.table.state.handle import TableHandle


def footer_problem(table: TableHandle, task: tuple[str, int]) -> tuple[str, str] | None:
    """What is wrong with the footer of a file, given its path and the number of rows in its manifest; with the path.

    Raises: StorageError.
    """
    path, expected = task
    try:
        with store_of(table, path).open(path) as stream:
            metadata = footer(stream, path)
            check_page_sizes(stream, metadata, path, trusts_footer=True)
    except NotFoundError:
        return path, "vanished while the table was checked"
    except CorruptTableError as error:
        return path, str(error)
    found = metadata.num_rows
    return None if found == expected else (path, f"has {found} rows, its manifest says {expected}")
