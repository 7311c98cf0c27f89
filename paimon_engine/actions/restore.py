"""Undo a deletion that moved its files aside; list quarantines; and empty them for good.

Restoring goes in this order, so that no reader meets half a version:

1. What is in the way is looked for: a tag, branch or snapshot that has become another one, a row of snapshots that
   would have a gap, a version of which files were deleted later. With any of it nothing is moved.
2. Data, index and metadata files come back.
3. Then what readers start from: schemas, tags, changelogs and consumers, and snapshots from where the table's are on.

What each action's undo means: after `expire_snapshots`, `delete_tag`, `expire_tags` and `delete_branch` the table is as
it was before. After `rollback` its newer snapshots are there again, the newest of them as the latest one. After
`purge_files` the older snapshots, tags and branches are there again below the empty one: roll back to the one that you
want. Where a tag was moved, or main was fast-forwarded, the older state has no name of its own any more, and can be
given one: `as_tags` brings snapshots and tags back under the names `restored-<snapshot>` and `restored-<tag>`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final

from paimon_engine.errors import ConflictError, NotFoundError
from paimon_engine.executor import Executor
from paimon_engine.table.disposal import Disposal, move_files
from paimon_engine.table.handle import TableHandle
from paimon_engine.table.quarantine import Quarantine, quarantine_names, read_quarantine, remove_quarantine
from paimon_engine.table.reachability import on_line
from paimon_engine.table.restoring import RootsBack, bring_back, plan_roots
from paimon_engine.table.tag_news import telling
from paimon_engine.table.unfinished import forget_record
from paimon_engine.units import DAY_MS

logger = logging.getLogger(__name__)

_EMPTIED_AFTER_MS: Final = 30 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Bring back what the quarantine of that name holds; a dry run says what.

    With `as_tags` snapshots and tags come back as tags `restored-<snapshot>` and `restored-<tag>`. `parallelism` and
    `files_per_second` are limits as for deletions.
    """

    quarantine: str
    as_tags: bool = False
    dry_run: bool = False
    files_per_second: float | None = None
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What came back; `status` is `restored`, `dry_run` or `stopped`: run it again then, `stopped` says why.

    `action` names what is undone. `files` counts the files that are back; `missing` names those that are neither in
    the quarantine nor in their place. `snapshots`, `tags` and `branches` are what readers can start from again; `left`
    says which versions `as_tags` has not brought back, since files of theirs were deleted later.
    """

    status: str
    quarantine: str
    action: str
    files: int = 0
    bytes: int = 0
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0
    left: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def restore(table: TableHandle, spec: Restore, executor: Executor) -> RestoreResult:
    """Brings a quarantine back. Safe to repeat until its status is `restored`.

    Raises: InvalidArgumentError if there is no such quarantine; ConflictError if something else is in the place of what
    should come back; StorageError; UnsupportedError, CallbackError as in `table.tag_news`, where tags come back.
    """
    begun = time.monotonic()
    quarantine = read_quarantine(table, spec.quarantine)
    roots = plan_roots(table, quarantine, as_tags=spec.as_tags)
    if roots.conflicts:
        raise ConflictError(f"quarantine {spec.quarantine} cannot come back: {'; '.join(roots.conflicts)}")
    if spec.dry_run:
        return _result("dry_run", quarantine, roots, begun)
    with ExitStack() as stack:
        news = {}
        for branch in roots.tagged:
            news[branch] = stack.enter_context(telling(on_line(table, branch)))
            news[branch].expect(roots.tagged[branch])
        result = _brought_back(table, spec, executor, quarantine, roots, begun=begun)
        if result.status == "restored":
            for branch, tags in roots.tagged.items():
                news[branch].made(tags)
    return result


def _brought_back(
    table: TableHandle, spec: Restore, executor: Executor, quarantine: Quarantine, roots: RootsBack, *, begun: float
) -> RestoreResult:
    # Who finished the deletion meanwhile would move the files aside again.
    forget_record(table, quarantine.name)
    how = Disposal(files_per_second=spec.files_per_second, parallelism=spec.parallelism)
    moves = quarantine.moves_back(table)
    _, problems = move_files(table, moves, how, executor)
    if problems:
        return _result("stopped", quarantine, RootsBack(), begun, stopped=tuple(problems))
    present = {info.path for directory in {_parent(move.target) for move in moves} for info in _list(table, directory)}
    missing = tuple(move.target for move in moves if move.target not in present)
    bring_back(table, roots)
    remove_quarantine(table, quarantine.name)
    logger.info("restored quarantine %s of %s", quarantine.name, table.paths.root)
    return _result("restored", quarantine, roots, begun, missing=missing)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _list(table: TableHandle, directory: str) -> list[Any]:
    return list(table.env.storage.list(directory))


def _result(
    status: str,
    quarantine: Quarantine,
    roots: RootsBack,
    begun: float,
    *,
    missing: tuple[str, ...] = (),
    stopped: tuple[str, ...] = (),
) -> RestoreResult:
    return RestoreResult(
        status,
        quarantine.name,
        quarantine.what,
        files=0 if stopped else len(quarantine.files) - len(missing),
        bytes=0 if stopped else quarantine.size_bytes,
        snapshots=roots.snapshots,
        tags=roots.tags,
        branches=roots.branches,
        missing=missing,
        stopped=stopped,
        seconds=time.monotonic() - begun,
        left=roots.left,
    )


# ── emptying ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class EmptyQuarantine:
    """Delete for good what quarantines hold: the one of that name, or all made before `older_than_ms`.

    Without either, those older than 30 days go.
    """

    quarantine: str | None = None
    older_than_ms: int | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class EmptyQuarantineResult:
    """What went; `status` is `deleted`, `noop` or `dry_run`. `quarantines` tells each: action, time, files, bytes."""

    status: str
    quarantines: tuple[Mapping[str, Any], ...] = ()
    files_deleted: int = 0
    bytes_deleted: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def empty_quarantine(table: TableHandle, spec: EmptyQuarantine) -> EmptyQuarantineResult:
    """Deletes quarantines; safe to repeat. What was not moved yet by a run that was cut short stays in its place.

    Raises: InvalidArgumentError if there is no quarantine of that name; CorruptTableError; StorageError.
    """
    begun = time.monotonic()
    limit = table.env.clock() - _EMPTIED_AFTER_MS if spec.older_than_ms is None else spec.older_than_ms
    if spec.quarantine is not None:
        found = [read_quarantine(table, spec.quarantine)]
    else:
        found = [item for item in _quarantines(table) if item.time_ms < limit]
    if not spec.dry_run:
        for item in found:
            remove_quarantine(table, item.name)
    status = "noop" if not found else "dry_run" if spec.dry_run else "deleted"
    return EmptyQuarantineResult(
        status,
        tuple(_told(item) for item in found),
        sum(len(item.files) for item in found),
        sum(item.size_bytes for item in found),
        time.monotonic() - begun,
    )


def list_quarantines(table: TableHandle) -> list[Mapping[str, Any]]:
    """Every quarantine of the table, oldest first: `quarantine`, `action`, `time_ms`, `files`, `bytes`, `roots`.

    Raises: CorruptTableError if one cannot be understood.
    """
    return [_told(item) for item in sorted(_quarantines(table), key=lambda item: (item.time_ms, item.name))]


def _quarantines(table: TableHandle) -> list[Quarantine]:
    found = []
    for name in quarantine_names(table):
        try:
            found.append(read_quarantine(table, name))
        except NotFoundError:
            continue
    return found


def _told(quarantine: Quarantine) -> Mapping[str, Any]:
    return {
        "quarantine": quarantine.name,
        "action": quarantine.what,
        "time_ms": quarantine.time_ms,
        "files": len(quarantine.files),
        "bytes": quarantine.size_bytes,
        "roots": tuple(quarantine.roots),
    }
