"""On a file system of a few megabytes that is nearly full, at each amount of free space: it is right, or a typed error.

`python -m tests.faults.full_disk DIRECTORY` makes a table in the directory, and fills the rest of its file system up to
so many free blocks before each job. The job may fail; the table must be valid, hold what was acknowledged and nothing
else, and the job repeated with space again must finish.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from paimon_engine import Catalog, PaimonError, StorageError, Table
from tests.support.world import Real
from tests.support.world.check import assert_sound

_ROWS = 400
_BLOCKS = (*range(12), 14, 18, 24)
_COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


class Disk:
    """A small file system with one table and a file that takes up space."""

    def __init__(self, directory: str) -> None:
        self._ballast = f"{directory}/ballast"
        catalog = Catalog(f"{directory}/lake")
        self.table: Table = catalog.create_table("db.t", schema=_COLUMNS, primary_keys=["k"], options={"bucket": 1})
        self.outcomes: Counter[str] = Counter()

    def leave(self, blocks: int) -> None:
        """Fills the file system up to so many free blocks."""
        found = os.statvfs(os.path.dirname(self._ballast))
        with open(self._ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, (found.f_bavail - blocks) * found.f_frsize))

    def free(self) -> None:
        os.unlink(self._ballast)

    def tight(self, blocks: int, job: Callable[[], Any], *, takes_back: bool) -> bool:
        """Carries a job out with little space: whether it succeeded. Raises AssertionError for what is not allowed."""
        self.leave(blocks)
        failed: PaimonError | None = None
        try:
            job()
        except StorageError as error:
            failed = error
        finally:
            self.free()
        self.outcomes["succeeded" if failed is None else type(failed).__name__] += 1
        left = assert_sound(Real(self.table.path).handle)
        assert failed is None or not takes_back or not left, left
        return failed is None

    def rows(self) -> dict[int, str]:
        return {row["k"]: row["v"] for row in self.table.to_arrow().to_pylist()}


def rows_of(number: int) -> dict[int, str]:
    return {key: f"{number}-{os.urandom(8).hex()}" for key in range(_ROWS)}


def main(directory: str) -> None:
    disk = Disk(directory)
    table, before = disk.table, rows_of(0)
    table.write(_arrow(before))
    for number, blocks in enumerate(_BLOCKS, start=1):
        after = rows_of(number)

        def write(number: int = number, after: dict[int, str] = after) -> Any:
            return table.write(_arrow(after), commit_user=f"write-{number}")

        is_done = disk.tight(blocks, write, takes_back=True)
        assert disk.rows() == (after if is_done else before)
        write()
        assert disk.rows() == after
        for job in (
            lambda number=number: table.compact(full=True, commit_user=f"compact-{number}"),
            lambda number=number: table.create_tag(f"tag-{number}"),
            lambda number=number: table.delete_tag(f"tag-{number}"),
            lambda: table.expire_snapshots(retain_max=1, retain_min=1),
        ):
            disk.tight(blocks, job, takes_back=False)
            job()
            assert disk.rows() == after
        before = after
    print(json.dumps(disk.outcomes))


def _arrow(rows: dict[int, str]) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], schema=_COLUMNS)


if __name__ == "__main__":
    main(sys.argv[1])
