"""Verify: is everything there that a table needs, and is it as its metadata says? Nothing is written.

The checks are listed in `table.check.table_check`; `depth` says which are made.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated, Literal

from paimon_engine.action import Context, Result, action
from paimon_engine.specs import Spec
from paimon_engine.table.check.findings import Problem
from paimon_engine.table.check.row_bytes import bytes_of_rows
from paimon_engine.table.check.table_check import Depth, examine_table
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.vanished import check_is_there

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verify(Spec):
    """Check `metadata`; or also `files`: that they exist and are complete; or also all `rows`."""

    depth: Annotated[Literal["metadata", "files", "rows"], "how much is checked: metadata, files or rows"] = "files"


@dataclass(frozen=True, slots=True)
class VerifyResult(Result):
    """What was found; `status` is `sound` or `damaged`. `problems` say where, and what is wrong there.

    Snapshots and tags of all branches are `roots`; a data file counts once. `rows` is 0 unless rows were read. `closed`
    files are outside the table, in directories that `external-paths.allowed` does not name; they were not checked.
    `notes` list deviations of other writers that can still be read; they are not damage.
    """

    status: str
    depth: str
    problems: tuple[Problem, ...] = ()
    roots: int = 0
    manifests: int = 0
    data_files: int = 0
    rows: int = 0
    seconds: float = 0.0
    closed: int = 0
    notes: tuple[Problem, ...] = ()


@action
def verify(context: Context, spec: Verify) -> VerifyResult:
    """Looks at every snapshot and tag of every branch. Damage is a finding, not an error.

    Raises: InvalidArgumentError for another depth; NotFoundError if the table is gone; StorageError.
    """
    table, executor, on_progress = context.table, context.executor, context.on_progress
    depth = Depth(spec.depth)
    check_is_there(table)
    found = examine_table(table, executor, depth=depth, on_progress=on_progress)
    status = "damaged" if found.problems else "sound"
    logger.info("%s is %s: %d problems", table.paths.root, status, len(found.problems))
    counted = found.roots, found.manifests, found.data_files, found.rows
    return VerifyResult(status, depth.value, found.problems, *counted, closed=found.closed, notes=found.notes)


def planned_bytes(table: TableHandle, spec: Verify) -> int:
    """Bytes of the files whose rows would be read, from metadata alone; 0 if rows are not checked.

    Raises: PaimonError if the metadata cannot be read.
    """
    return bytes_of_rows(table) if Depth(spec.depth) is Depth.ROWS else 0
