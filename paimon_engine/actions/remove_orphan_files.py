"""Remove orphan files: delete what nothing names, left behind by writers that died or commits that failed.

1. Old files are listed, then the names that all snapshots, tags, branches and long-lived changelogs use are read, then
   those that are new since (`table.orphans`). Old files that nothing names are orphans. A dry run ends here.
2. They are deleted, or moved aside into `quarantine/<id>` of the table, from where `restore` brings them back.

If a look is not complete nothing is deleted, and `stopped` says why. A file that a running job has written and not yet
committed is protected by its age alone: `older_than_ms` must be older than the longest job.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.executor import Executor
from paimon_engine.table.deletion import DeletedFile, check_places, clean_directories
from paimon_engine.table.disposal import Disposal, delete_files, move_files
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.orphans import Look, list_old_files, live_nowhere
from paimon_engine.table.quarantine import write_quarantine
from paimon_engine.table.unfinished import forget_old_records
from paimon_engine.units import DAY_MS

logger = logging.getLogger(__name__)

_WHY: Final = "no snapshot, tag, branch or changelog names it"
_WHY_DEAD: Final = "it was removed, and no snapshot, tag, branch or changelog needs it any more"


@dataclass(frozen=True, slots=True)
class RemoveOrphanFiles(Disposal):
    """Delete orphans last changed before `older_than_ms` (epoch milliseconds; a day ago by default)."""

    older_than_ms: int | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RemoveOrphanFilesResult:
    """What it did; `status` is `deleted`, `quarantined`, `noop`, `dry_run` or `stopped`.

    `stopped`: it is not certain what is an orphan, or a file could not be deleted; the texts say why. `deleted` names
    every file that went (in a dry run: would go). `files_checked` counts the old files that were looked at.
    `quarantine` is the name of the directory with the files.
    """

    status: str
    files_checked: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def remove_orphan_files(table: TableHandle, spec: RemoveOrphanFiles, executor: Executor) -> RemoveOrphanFilesResult:
    """Removes orphans of all branches. Safe to repeat, and to run beside writers, readers, taggers and expiry.

    Raises: InvalidArgumentError for a time to come; UnsupportedError if options put files where we would not find
    them; StorageError.
    """
    begun = time.monotonic()
    check_places(table)
    now_ms = table.env.clock()
    older_than_ms = now_ms - DAY_MS if spec.older_than_ms is None else spec.older_than_ms
    if older_than_ms > now_ms:
        raise InvalidArgumentError(
            f"older_than_ms={older_than_ms} is yet to come; files being written would be deleted"
        )
    found = list_old_files(table, older_than_ms)
    look = Look()
    look.take(table, executor)
    look.take(table, executor)
    if look.doubts:
        stopped = tuple(f"nothing is deleted: {doubt}" for doubt in dict.fromkeys(look.doubts))
        return RemoveOrphanFilesResult("stopped", len(found), stopped=stopped, seconds=time.monotonic() - begun)
    dead = live_nowhere(table, look, found, executor)
    orphans = [
        DeletedFile(info.path, info.size_bytes, _WHY_DEAD if info.path in dead else _WHY)
        for info in found
        if info.path in dead or info.path.rpartition("/")[2] not in look.names
    ]
    done, quarantine, status = orphans, None, "dry_run"
    problems: list[str] = []
    if orphans and not spec.dry_run:
        status = "quarantined" if spec.quarantine else "deleted"
        done, quarantine, problems = _dispose(table, orphans, spec, executor)
        if table.options.clean_empty_directories:
            clean_directories(table, {path for file in done if "/bucket-" in (path := _directory(file.path))})
    if not spec.dry_run and not problems:
        forget_old_records(table, older_than_ms)
    result = RemoveOrphanFilesResult(
        status="noop" if not orphans else "stopped" if problems else status,
        files_checked=len(found),
        files_deleted=len(done),
        bytes_deleted=sum(file.size_bytes for file in done),
        deleted=tuple(done),
        quarantine=quarantine,
        stopped=tuple(problems),
        seconds=time.monotonic() - begun,
    )
    logger.info("%s %d of %d old files of %s", result.status, len(done), len(found), table.paths.root)
    return result


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _dispose(
    table: TableHandle, files: Sequence[DeletedFile], how: Disposal, executor: Executor
) -> tuple[list[DeletedFile], str | None, list[str]]:
    """The files that went, the quarantine that has them, and what was left and why."""
    known = {file.path: file for file in files}
    if not how.quarantine:
        gone, problems = delete_files(table, tuple(known), how, executor)
        return [known[path] for path in gone], None, problems
    sizes = {file.path: file.size_bytes for file in files}
    quarantine = write_quarantine(table, table.env.new_id(), "remove_orphan_files", sizes)
    moves, problems = move_files(table, quarantine.moves_in(table, known), how, executor)
    return [known[move.source] for move in moves], quarantine.name, problems
